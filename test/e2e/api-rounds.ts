import { setTimeout as sleep } from "node:timers/promises";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { expect } from "vitest";
import { accounts, newAccount, type TestAccount } from "../helpers/accounts.ts";
import { signV2Payment } from "../helpers/clients.ts";
import { type Random, randomFrom } from "../helpers/seeded-random.ts";
import { readBooks, sumOf } from "./books.ts";
import { LOST_SETTLE_ANSWERS, NO_VERDICTS, UNHEARD_SETTLE_REQUESTS } from "./facilitator-faults.ts";
import { expectBalance } from "./ledger.ts";
import { type PaidGateway, type Payment, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, type PaidParts, startPaidParts } from "./paid-parts.ts";
import { API_TIMEOUT_SECS, KINDS, type Kind, type SoldApi, sha256Of, startSoldApi } from "./sold-api.ts";
import { readChain, useKey } from "./storm-audit.ts";

/** Steps of a sale between which jobgate is killed with SIGKILL. */
export const API_CRASHES = [
  "during verify",
  "before-journal",
  "after-journal",
  "before-delivery",
  "during call",
  "during answer",
  "before-ack",
  "after-ack",
  "before-charge",
  "during settle",
  "after-settle",
  "after-commit",
  "during reply",
] as const;
export type ApiCrash = (typeof API_CRASHES)[number];

/** Purchases that are on their way at each crash. */
const PURCHASES = 8;
/** Time for the crash that a round waits for, after which it kills. */
const CRASHED_WITHIN_MS = 20_000;
const DECIDED_WITHIN_MS = 240_000;
/** Time for what jobgate does after an answer. */
const BEHIND_ANSWERS_MS = 1_000;
/** Lifetime of the payments: longer than the rounds in which each is decided. */
const VALID_SECS = 3_600;

/** An answer as its buyer has it. */
interface Got {
  readonly status: number;
  readonly sha256: string;
  readonly isCharged: boolean;
  readonly text: string;
  /** Number of the process that sent it. */
  readonly life: number;
}

interface Purchase {
  readonly name: string;
  readonly kind: Kind;
  readonly method: "GET" | "POST";
  readonly account: TestAccount;
  readonly payment: Payment;
  /** Decided answers, in the order in which they came. */
  readonly answers: Got[];
  /** The last answer that decides nothing. */
  undecided: string | undefined;
}

/** One jobgate that sells an API and is killed again and again on one store. */
export interface ApiCrashSite {
  /**
   * Starts purchases, kills jobgate at the step, and starts it again. What was not decided goes on in the next round.
   * @returns false if no purchase came to the step
   */
  round(crash: ApiCrash): Promise<boolean>;
  /** Resends all that is not decided, and compares the chain, the journal, the API's log and the buyers' answers. */
  expectAllAccounted(): Promise<void>;
  stop(): Promise<void>;
}

export async function startApiCrashSite({
  storeUrl,
  seed = 1,
}: {
  readonly storeUrl?: string;
  readonly seed?: number;
} = {}): Promise<ApiCrashSite> {
  const [parts, api] = await Promise.all([startPaidParts(), startSoldApi()]);
  const gateway = await startPaidGateway({
    rpcFaults: true,
    parts,
    setUp: "rpc_url",
    facilitatorTimeoutSecs: 2,
    leaseSecs: 1,
    asProcess: true,
    edit: (config) => sellApi(config, api.url),
    ...(storeUrl === undefined ? {} : { storeUrl }),
  });
  const site = new Site(parts, api, gateway, randomFrom(seed));
  api.onUnpaid((name) => site.cancel(name));
  return {
    round: (crash) => site.round(crash),
    expectAllAccounted: () => site.expectAllAccounted(),
    async stop() {
      await gateway.stop();
      await Promise.all([api.stop(), parts.stop()]);
    },
  };
}

function sellApi(config: string, url: string): string {
  return `${config.replace("[x402]\n", "[x402]\nmax_open_per_payer = 100_000\n")}
[[apis]]
name = "sold"
url = "${url}"
timeout_secs = ${API_TIMEOUT_SECS}
uncharged_per_minute = 1_000_000
forward_headers = ["if-none-match"]
[[jobs]]
route = "GET /{kind}/{name}"
api = "sold"
price_wei = "1000000000000000"
[[jobs]]
route = "POST /{kind}/{name}"
api = "sold"
price_wei = "1000000000000000"
`;
}

class Site {
  readonly #parts: PaidParts;
  readonly #api: SoldApi;
  readonly #gateway: PaidGateway;
  readonly #random: Random;
  readonly #purchases: Purchase[] = [];
  #life = 1;

  constructor(parts: PaidParts, api: SoldApi, gateway: PaidGateway, random: Random) {
    this.#parts = parts;
    this.#api = api;
    this.#gateway = gateway;
    this.#random = random;
  }

  async round(crash: ApiCrash): Promise<boolean> {
    const gateway = this.#gateway;
    // In some rounds jobgate is killed while it goes on with what the crash before has left.
    if (this.#random(4) > 0) {
      await this.#restart({});
      await this.#resend();
    }
    const isPoint = !crash.startsWith("during");
    let isMet = false;
    // What the rounds before have left may meet the point while jobgate starts.
    if (isPoint)
      await this.#restart({ JOBGATE_CRASH_AT: crash }).catch(() => {
        isMet = true;
        return this.#restart({});
      });
    else await this.#restart({});
    const isDead = gateway.jobgate.exited.then(() => true);
    const bought = await Promise.all(Array.from({ length: PURCHASES }, () => this.#buy())).catch(() => []);
    this.#purchases.push(...bought);
    this.#addFaults();
    const kill = async () => {
      gateway.jobgate.kill("SIGKILL");
      await gateway.jobgate.exited;
    };
    if (crash === "during verify" || crash === "during settle")
      void gateway.facilitatorProxy.during({ path: `/${crash.split(" ")[1]}` }, kill);
    if (crash === "during call" || crash === "during answer")
      this.#api.during(crash === "during call" ? "call" : "answer", kill);
    const sends = this.#open().map((purchase) =>
      this.#send(purchase, crash === "during reply" ? kill : undefined),
    );
    const over = sleep(CRASHED_WITHIN_MS, false, { ref: false });
    const settled = this.#settled(sends).then(() => false);
    if (await Promise.race([isDead, over, settled])) isMet = true;
    await kill();
    await Promise.all(sends);
    gateway.facilitatorProxy.clear();
    gateway.rpcProxy.clear();
    return isMet;
  }

  /** Waits until nothing is left to send, and a little for what jobgate does behind the answers. */
  async #settled(sends: readonly Promise<void>[]): Promise<void> {
    await Promise.all(sends);
    await sleep(BEHIND_ANSWERS_MS, undefined, { ref: false });
  }

  async expectAllAccounted(): Promise<void> {
    // Two processes have to give each answer.
    for (let i = 0; i < 2; i++) {
      await this.#restart({});
      const unanswered = async () => {
        await this.#parts.anvil.client.mine({ blocks: 1 });
        return (await this.#resend()).map(({ kind, undecided }) => `${kind}: ${undecided}`);
      };
      await expect.poll(unanswered, { timeout: DECIDED_WITHIN_MS, interval: 500 }).toEqual([]);
    }
    const { paid, transfers } = await readChain(this.#parts);
    const records = new Map(
      (await this.#gateway.journal.payments()).map((record) => [record.key.nonce, record]),
    );
    const broken = this.#purchases.flatMap((purchase) => {
      const { authorization } = purchase.payment.signed;
      const isPaid = paid.has(useKey(authorization.from, authorization.nonce));
      const state = records.get(authorization.nonce.toLowerCase())?.state;
      const { name, kind, method, answers } = purchase;
      const calls = this.#api.calls.filter((call) => call.name === name);
      const laws = brokenLaws({ isPaid, state, method, calls, answers });
      return laws.length === 0 ? [] : [{ laws, name, kind, method, isPaid, state, calls, answers }];
    });
    expect(broken, JSON.stringify(broken, null, 1)).toEqual([]);
    const received = await this.#parts.usdc.balanceOf(accounts.payTo.address);
    expect({ transfers, received }).toEqual({ transfers: paid.size, received: BigInt(paid.size) * AMOUNT });
    const books = await readBooks(this.#gateway);
    expect(sumOf(books, { account: accounts.payTo.address, asset: this.#parts.usdc.address })).toBe(received);
    await expectBalance(this.#gateway);
    const ends = new Map<string, number>();
    for (const { kind, answers } of this.#purchases) {
      const end = `${kind} ${answers[0]?.status}`;
      ends.set(end, (ends.get(end) ?? 0) + 1);
    }
    const twice = new Set(this.#api.calls.filter(({ attempt }) => attempt > 1).map(({ name }) => name));
    const figures = { purchases: this.#purchases.length, paid: paid.size, "called twice": twice.size };
    console.info(JSON.stringify({ ...figures, ...Object.fromEntries(ends) }));
    // A site on which nothing is sold, or nothing fails, says nothing.
    const settled = this.#purchases.filter(({ answers }) => answers[0]?.isCharged).length;
    expect(settled).toBeGreaterThan(0);
    expect(settled).toBeLessThan(this.#purchases.length);
  }

  /** Sends what has no decided answer of this process. Returns what has none then. */
  async #resend(): Promise<Purchase[]> {
    const unanswered = () => this.#open().filter(({ answers }) => answers.at(-1)?.life !== this.#life);
    await Promise.all(unanswered().map((purchase) => this.#send(purchase)));
    return unanswered();
  }

  /** Lets a payment become void while its call is at the API. */
  async cancel(name: string): Promise<void> {
    const purchase = this.#purchases.find((one) => one.name === name);
    if (purchase === undefined) return;
    const { from, nonce } = purchase.payment.signed.authorization;
    if (await this.#parts.usdc.authorizationState(from, nonce)) return;
    await this.#parts.usdc.cancelAuthorization(purchase.account, nonce);
  }

  async #restart(env: Readonly<Record<string, string>>): Promise<void> {
    this.#gateway.jobgate.kill("SIGKILL");
    await this.#gateway.startAgain({ asProcess: true, env });
    this.#life++;
  }

  /** Signs a purchase, which is sent with the others. */
  async #buy(): Promise<Purchase> {
    const kind = KINDS[this.#random(KINDS.length)] as Kind;
    const method = this.#random(2) === 0 ? "GET" : "POST";
    const name = `n${this.#purchases.length}-${this.#random(1_000_000_000)}`;
    // A payer whose charge was refused is barred.
    const account = kind === "unpaid" ? newAccount() : accounts.payer;
    if (kind === "unpaid") await this.#parts.usdc.mint(account.address, AMOUNT);
    const asked = await fetch(`${this.#gateway.jobgate.x402Url}/${kind}/${name}`, {
      ...{ method, headers: conditionOf(kind) },
    });
    const offer = decodePaymentRequiredHeader(asked.headers.get("payment-required") ?? "");
    const validBefore = String((await this.#parts.chainTimeSecs()) + VALID_SECS);
    const payment = await signV2Payment({ account, authorization: { validBefore }, offer });
    return { name, kind, method, account, payment, answers: [], undecided: undefined };
  }

  /** Breaks some requests to the facilitator and the chain. */
  #addFaults(): void {
    const { facilitatorProxy, rpcProxy } = this.#gateway;
    const pick = <Item>(items: readonly Item[]) => items[this.#random(items.length)] as Item;
    const settles = pick([LOST_SETTLE_ANSWERS, UNHEARD_SETTLE_REQUESTS]);
    facilitatorProxy.add({ path: "/settle", times: this.#random(3), fault: pick(Object.values(settles)) });
    facilitatorProxy.add({
      path: "/verify",
      times: this.#random(2),
      fault: pick(Object.values(NO_VERDICTS)),
    });
    rpcProxy.add({ rpcMethod: "eth_call", times: this.#random(3), fault: { kind: "cut" } });
    rpcProxy.add({
      rpcMethod: "eth_getLogs",
      times: this.#random(3),
      fault: { kind: "answer", status: 500, body: "" },
    });
  }

  /** Purchases that have no decided answer, or only of one process. */
  #open(): Purchase[] {
    return this.#purchases.filter(({ answers }) => new Set(answers.map(({ life }) => life)).size < 2);
  }

  /** Sends a purchase once, and notes its answer. */
  async #send(purchase: Purchase, onReply?: () => Promise<void>): Promise<void> {
    const { kind, name, method, payment, answers } = purchase;
    const life = this.#life;
    try {
      const signal = AbortSignal.timeout(60_000);
      const headers = { ...payment.headers, ...conditionOf(kind) };
      const response = await fetch(`${this.#gateway.jobgate.x402Url}/${kind}/${name}`, {
        ...{ method, headers, signal, redirect: "manual" },
      });
      await onReply?.();
      const bytes = Buffer.from(await response.arrayBuffer());
      const { status } = response;
      if (status === 503 || status === 202) {
        purchase.undecided = `${status} ${bytes}`;
        return;
      }
      const isCharged = response.headers.has("payment-response") && status !== 402;
      answers.push({
        status,
        sha256: sha256Of(bytes),
        isCharged,
        text: bytes.toString("latin1", 0, 300),
        life,
      });
    } catch {
      // Killed meanwhile: it is sent again.
    }
  }
}

/** Headers of a request. A 304 is paid for only by a client who has asked whether something has changed. */
function conditionOf(kind: Kind): Readonly<Record<string, string>> {
  return kind === "unchanged" ? { "if-none-match": '"1"' } : {};
}

const isSold = (status: number) => status === 304 || (status >= 200 && status < 300);

/** Names the promises that a purchase breaks. */
function brokenLaws({
  isPaid,
  state,
  method,
  calls,
  answers,
}: Pick<Purchase, "method" | "answers"> & {
  readonly isPaid: boolean;
  readonly state: string | undefined;
  readonly calls: SoldApi["calls"];
}): string[] {
  const laws: string[] = [];
  const [first] = answers;
  if (first === undefined) return ["no answer"];
  // A client that is there gets another text than one that comes back.
  const isOne = answers.every(
    ({ status, sha256 }) => status === first.status && (status === 402 || sha256 === first.sha256),
  );
  if (!isOne) laws.push("a resend has another answer");
  if (isPaid !== isSold(first.status))
    laws.push(isPaid ? "charged for no answer" : "an answer without a charge");
  if (answers.some(({ isCharged }) => isCharged !== isPaid)) laws.push("an answer says another charge");
  if (isPaid !== (state === "settled")) laws.push("chain and journal differ");
  if (state !== "settled" && state !== "released" && state !== "failed" && state !== undefined)
    laws.push("undecided");
  const isFromApi = calls.some(
    ({ answer }) => answer?.status === first.status && answer.sha256 === first.sha256,
  );
  if (isPaid && !isFromApi) laws.push("not the answer of the API");
  if (calls.length > (method === "GET" ? 2 : 1)) laws.push("called too often");
  return laws;
}
