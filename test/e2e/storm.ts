import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { PaymentRequired } from "@x402/core/types";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { expect } from "vitest";
import type { JobCall } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { accounts, type TestAccount } from "../helpers/accounts.ts";
import { signV2Payment } from "../helpers/clients.ts";
import { eventually } from "../helpers/eventually.ts";
import type { Fault, ProxiedRequest } from "../helpers/fault.ts";
import type { FaultProxy } from "../helpers/http-proxy.ts";
import { type Postgres, startPostgres } from "../helpers/postgres.ts";
import { until } from "../helpers/until.ts";
import { LOST_SETTLE_ANSWERS, NO_VERDICTS, UNHEARD_SETTLE_REQUESTS } from "./facilitator-faults.ts";
import { type MoreFacilitators, startMoreFacilitators } from "./more-facilitators.ts";
import { type Answer, type PaidGateway, type Payment, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, type PaidParts, startPaidParts } from "./paid-parts.ts";
import { StaleNode } from "./stale-node.ts";
import {
  type Event,
  LIES,
  type Lie,
  type Meanwhile,
  type Plan,
  type PlannedEvent,
  planStorm,
  type RpcAnswer,
} from "./storm-plans.ts";

const BUYERS = 64;
const CONFIRMATIONS = 3;
const BLOCK_EVERY_MS = 100;
const LEASE_SECS = 1;
/** Part of a client's patience: nothing was charged, so it has the less reason to give up. */
const COST_OF_REFUSAL = 0.1;
/** Longer than any authorization is valid. */
const ALL_EXPIRED_SECS = 400;
const CALM_DOWN_MS = 600_000;
/**
 * Time after the confirmed end of its authorization that a client goes on sending in the storm. jobgate may need longer there:
 * most looks at the chain fail, each kill makes it start with the first of two looks, and the chain's clock is ahead.
 */
const IN_STORM_MS = 30_000;
/** Time in which a payment reaches the place of a crash; a storm with few payments goes on without the crash. */
const CRASH_WITHIN_MS = 5_000;
/** Longest wait in the calm: 15 s, and 30 s between two checks, because jobgate's clock is behind the chain's. */
const IN_CALM_MS = 15_000 + 30_000;

/** Stores and chains of a storm: SQLite with a chain to read, SQLite without, Postgres with a chain. */
export const STORM_MODES = ["rpc_url", "no_rpc", "postgres"] as const;
export type StormMode = (typeof STORM_MODES)[number];

/** A payment, and what its client saw. */
export interface Purchase {
  readonly plan: Plan;
  readonly payer: TestAccount;
  readonly payment: Payment;
  readonly body: string;
  /** Answers to the very same request; undefined for one that was lost. */
  readonly answers: (Answer | undefined)[];
  /** Its client went on sending until jobgate had to have decided. */
  wentOn: boolean;
  /** Answers to requests that use the payment for something else. */
  readonly misuses: (Answer | undefined)[];
}

/**
 * Many clients who buy at once from one jobgate, while it is killed again and again, and its facilitator, its RPC, its
 * runner, the payers and strangers misbehave.
 */
export class Storm {
  readonly parts: PaidParts;
  readonly gateway: PaidGateway;
  readonly purchases: Purchase[] = [];
  /** Number of times that each thing happened. */
  readonly counts = new Map<string, number>();
  readonly #plan: ReturnType<typeof planStorm>;
  readonly #staleNode: StaleNode;
  /** Remote facilitators, each behind a proxy. */
  readonly #remotes: readonly FaultProxy[];
  readonly #moreFacilitators: MoreFacilitators | undefined;
  readonly #mode: StormMode;
  readonly #postgres: Postgres | undefined;
  readonly #byNonce = new Map<string, Purchase>();
  /** Faults that struck, each once at each facilitator: `verify 0x… 0`. */
  readonly #struck = new Set<string>();
  readonly #logs: (readonly string[])[] = [];
  /** Transactions of transfers to the recipient that belong to no payment. */
  readonly outsideTransfers: string[] = [];
  #runnerStalled: Promise<unknown> = Promise.resolve();
  #rpcQuestions = 0;
  /** Answers other than refusals. */
  #answered = 0;
  #chainSecs = 0;
  /** The chain's time at each look, and the time of the look. */
  readonly #looks: { readonly secs: number; readonly at: number }[] = [];
  /** Longest time from the confirmed end of an authorization to its client's last answer in the storm. */
  latestEndMs = 0;
  /** Longest time from the start of the calm to a client's last answer. */
  latestCalmMs = 0;
  #lastAct: Promise<unknown> = Promise.resolve();
  /** Pending while jobgate is down. */
  #running: Promise<unknown> = Promise.resolve();
  #stopped = false;
  #mining: Promise<void>;

  private constructor(
    plan: ReturnType<typeof planStorm>,
    made: {
      parts: PaidParts;
      gateway: PaidGateway;
      staleNode: StaleNode;
      moreFacilitators: MoreFacilitators | undefined;
      mode: StormMode;
      postgres: Postgres | undefined;
    },
  ) {
    this.#plan = plan;
    this.parts = made.parts;
    this.gateway = made.gateway;
    this.#staleNode = made.staleNode;
    this.#moreFacilitators = made.moreFacilitators;
    this.#mode = made.mode;
    this.#postgres = made.postgres;
    this.#remotes = [made.gateway.facilitatorProxy, made.moreFacilitators?.proxy ?? []].flat();
    this.#mining = this.#mine();
  }

  static async start(options: {
    readonly seed: number;
    readonly payments: number;
    /** Three: two remote ones and jobgate itself. Default: a remote one. */
    readonly facilitators?: 1 | 3;
    /** Default: `rpc_url`. */
    readonly mode?: StormMode;
  }): Promise<Storm> {
    const { mode = "rpc_url" } = options;
    const plan = planStorm(options.seed, options.payments);
    const postgres = mode === "postgres" ? await startPostgres() : undefined;
    // The second node asks for no older state.
    const parts = await startPaidParts({
      anvilArgs: ["--prune-history", "500"],
      confirmationTimeoutMs: 3_000,
    });
    const moreFacilitators = options.facilitators === 3 ? await startMoreFacilitators(parts) : undefined;
    const { edit = (config: string) => config } = moreFacilitators ?? {};
    let storm: Storm | undefined;
    const gateway = await startPaidGateway({
      rpcFaults: true,
      parts,
      setUp: mode === "no_rpc" ? "no rpc_url" : "rpc_url",
      ...(postgres && { storeUrl: await postgres.createDatabase() }),
      asProcess: true,
      confirmations: CONFIRMATIONS,
      facilitatorTimeoutSecs: 2,
      leaseSecs: LEASE_SECS,
      maxPending: 150,
      handle: (call) => storm?.work(call),
      edit: (config) =>
        edit(config)
          .replace("[runner]", "[runner]\nmax_attempts = 1000")
          .replace("[x402]", "[x402]\nmax_open_per_payer = 100000"),
    });
    const staleNode = await StaleNode.start(parts.anvil, parts.usdc, plan.nodeLives);
    storm = new Storm(plan, { parts, gateway, staleNode, moreFacilitators, mode, postgres });
    return storm;
  }

  /** Resolves when all payments were sent, and their clients are content or gave up. */
  async rage(): Promise<void> {
    const { gateway } = this;
    for (const [i, proxy] of this.#remotes.entries()) {
      proxy.add({ path: "/verify", fault: (request) => this.#verifyFault(request, i) });
      proxy.add({ path: "/settle", fault: (request) => this.#settleFault(request, i) });
    }
    gateway.rpcProxy.add({ fault: (request) => this.#rpcFault(request) });
    let raging = true;
    let next = 0;
    const buyers = Array.from({ length: BUYERS }, async () => {
      for (let index = next++; index < this.#plan.plans.length; index = next++) {
        if (index % 1_000 === 0)
          console.log(`storm: payment ${index}, ${this.counts.get("kills") ?? 0} kills`);
        await this.#buy(index);
      }
    });
    const sold = Promise.all(buyers).finally(() => {
      raging = false;
    });
    await Promise.all([sold, this.#happenings(() => raging)]);
  }

  /**
   * Makes all parts healthy again, lets all authorizations expire, and resolves once nothing is open any more. A jobgate
   * without rpc_url then gets it, as an operator decides what no answer of the facilitator did.
   */
  async calmDown(): Promise<void> {
    const { gateway, parts } = this;
    for (const proxy of this.#remotes) proxy.clear();
    gateway.rpcProxy.clear();
    await this.#restart();
    await parts.passTime(ALL_EXPIRED_SECS);
    if (this.#mode !== "no_rpc") await this.#askInCalm();
    const open = async () => {
      const { payments, paidCalls } = await gateway.journal.totals();
      return {
        undecided: payments.intent + payments.unresolved,
        jobs: paidCalls.ready + paidCalls.leased,
      };
    };
    if (this.#mode === "no_rpc") {
      this.counts.set("left to the operator", (await open()).undecided);
      const { jobgate, rpcProxy } = gateway;
      const rpc = `rpc_url = "${rpcProxy.url}"\nconfirmations = ${CONFIRMATIONS}`;
      const config = await readFile(jobgate.configPath, "utf8");
      await jobgate.reload(config.replace(/^eip3009_version.*$/m, `$&\n${rpc}`));
    }
    const timeout = CALM_DOWN_MS;
    await expect.poll(open, { timeout, interval: 200 }).toEqual({ undecided: 0, jobs: 0 });
    const more = this.#moreFacilitators;
    if (more !== undefined) this.counts.set("transactions of jobgate itself", await more.minedByLocal());
  }

  /** Returns the lines that all jobgates logged about one payment. */
  logsAbout({ payment }: Purchase): string[] {
    const { nonce } = payment.signed.authorization;
    return [...this.#logs, this.gateway.jobgate.logs]
      .flat()
      .filter((line) => line.includes(nonce.toLowerCase()));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#mining;
    await this.gateway.stop();
    await this.#staleNode.stop();
    await this.#moreFacilitators?.stop();
    await this.parts.stop();
    await this.#postgres?.stop();
  }

  /** The runner's work. */
  async work(call: JobCall): Promise<undefined> {
    const { plan } = this.#purchaseOf(call);
    await this.#runnerStalled;
    if (call.attempt > 1 || plan.running === "ack") return;
    this.#count(`runner: ${plan.running}`);
    if (plan.running === "nack") throw new Error("cannot do this now");
    await sleep(LEASE_SECS * 1_500);
  }

  #purchaseOf({ body }: JobCall): Purchase {
    const index = Number(Buffer.from(body).toString().split(" ")[1]);
    return this.purchases[index] as Purchase;
  }

  async #buy(index: number): Promise<void> {
    const { parts, gateway } = this;
    const plan = this.#plan.plans[index] as Plan;
    const payer = await this.#payerOf(plan);
    const validBefore = Math.max(this.#chainSecs, Math.floor(Date.now() / 1_000)) + plan.validSecs;
    // jobgate may be down.
    const payment = await eventually(async () => {
      await this.#running;
      return gateway.sign({ account: payer, authorization: { validBefore: String(validBefore) } });
    });
    const purchase: Purchase = {
      plan,
      payer,
      payment,
      body: `storm ${index}`,
      answers: [],
      misuses: [],
      wentOn: false,
    };
    this.purchases[index] = purchase;
    this.#byNonce.set(payment.signed.authorization.nonce, purchase);
    if (plan.usedBefore) {
      await this.#onChain(() => parts.usdc.transferWithAuthorization(payment.signed)).catch(revertOnly);
      this.#count("payer: used before");
    }
    const { copies, hangUpMs } = plan;
    const { answers } = purchase;
    await Promise.all(Array.from({ length: copies }, () => this.#send(purchase, hangUpMs)));
    for (let patience = plan.resends; patience > 0 && !answers.some(isFinal); ) {
      await sleep(plan.pauseMs);
      await this.#send(purchase);
      patience -= answers.at(-1)?.charged === false ? COST_OF_REFUSAL : 1;
    }
    if (plan.goesOn && this.#mode !== "no_rpc") await this.#goOn(purchase, validBefore);
    if (plan.misuse === "no" || !purchase.answers.some(isOfKnown)) return;
    const misuse =
      plan.misuse === "job" ? { body: purchase.body, job: 1 } : { body: `${purchase.body} more` };
    purchase.misuses.push(await gateway.send(payment, misuse).catch(() => undefined));
    this.#count("client: misuse");
  }

  /** All clients who go on send until jobgate has decided, or had to. */
  async #askInCalm(): Promise<void> {
    const startedAt = performance.now();
    const late = () => performance.now() - startedAt;
    const goOn = async (purchase: Purchase) => {
      purchase.wentOn = true;
      while (!purchase.answers.some(isFinal) && late() < IN_CALM_MS) {
        await sleep(purchase.plan.pauseMs);
        await this.#send(purchase);
        this.latestCalmMs = Math.max(this.latestCalmMs, late());
      }
    };
    await Promise.all(this.purchases.filter(({ plan }) => plan.goesOn).map(goOn));
  }

  /** Sends until its payment is decided, or for long after the end of its authorization. */
  async #goOn(purchase: Purchase, validBefore: number): Promise<void> {
    const { answers, plan } = purchase;
    let hasEnded = false;
    for (let late = 0; !answers.some(isFinal) && late < IN_STORM_MS; ) {
      await sleep(plan.pauseMs);
      await this.#send(purchase);
      // Each look is at a block of its own.
      const first =
        this.#chainSecs < validBefore ? -1 : this.#looks.findIndex(({ secs }) => secs >= validBefore);
      const confirmed = first < 0 ? undefined : this.#looks[first + CONFIRMATIONS - 1];
      if (confirmed === undefined) continue;
      hasEnded = true;
      late = performance.now() - confirmed.at;
      this.latestEndMs = Math.max(this.latestEndMs, late);
    }
    const last = answers.find(isFinal) ?? answers.at(-1);
    const when = hasEnded ? "after" : "before";
    this.#count(`went on: ${last?.code ?? last?.status} ${when} its authorization's end`);
  }

  async #payerOf(plan: Plan): Promise<TestAccount> {
    if (plan.settling !== "empty the wallet")
      return [accounts.payer, accounts.otherPayer][plan.payer] as TestAccount;
    const privateKey = generatePrivateKey();
    const account = { ...privateKeyToAccount(privateKey), privateKey };
    await this.#onChain(() => this.parts.usdc.mint(account.address, AMOUNT));
    return account;
  }

  async #send({ payment, body, answers }: Purchase, hangUpMs?: number): Promise<void> {
    // Those who are on the line lose their answers; nobody calls while nobody is there.
    await this.#running;
    const signal = hangUpMs === undefined ? {} : { signal: AbortSignal.timeout(hangUpMs) };
    const answer = await this.gateway.send(payment, { body, ...signal }).catch(() => undefined);
    answers.push(answer);
    if (answer !== undefined && answer.charged !== false) this.#answered++;
    this.#count(`answer: ${answer === undefined ? "none" : (answer.code ?? answer.status)}`);
  }

  /** One event after the other. */
  async #happenings(raging: () => boolean): Promise<void> {
    for (let next = 0; raging(); next++) {
      const { event, answers, ms } = this.#plan.events[next % this.#plan.events.length] as PlannedEvent;
      const target = this.#answered + answers;
      // Clients give up in the end.
      await until(() => !raging() || this.#answered >= target, { waitMs: Number.POSITIVE_INFINITY });
      await sleep(ms);
      this.#count(`event: ${event.kind}`);
      await this.#happen(event);
    }
  }

  async #happen(event: Event): Promise<unknown> {
    const { gateway, parts } = this;
    switch (event.kind) {
      case "kill":
        return this.#restart();
      case "crash":
        await this.#restart({ JOBGATE_CRASH_AT: event.at });
        // The next payment that gets there kills it.
        await Promise.race([gateway.jobgate.exited, sleep(CRASH_WITHIN_MS)]);
        return this.#restart();
      case "runner":
        return gateway.replaceRunner();
      case "store crash":
        await this.#postgres?.kill("SIGKILL");
        return this.#postgres?.start();
      case "time":
        return this.#onChain(() => parts.passTime(event.secs));
      case "outside transfer":
        return this.#onChain(async () => {
          this.outsideTransfers.push(
            await parts.usdc.transfer(accounts.payer, accounts.payTo.address, AMOUNT),
          );
        });
      case "stall":
        this.#runnerStalled = sleep(event.ms);
        return;
      case "facilitator down":
        return outage(this.#remotes[this.#answered % this.#remotes.length] as FaultProxy, event.ms);
      case "rpc down":
        return outage(gateway.rpcProxy, event.ms);
    }
  }

  /** Acts upon the chain one after the other: anvil confuses the nonces of concurrent transactions. */
  #onChain<Result>(act: () => Promise<Result>): Promise<Result> {
    const result = this.#lastAct.then(act);
    this.#lastAct = result.catch(() => undefined);
    return result;
  }

  /** Kills jobgate and starts it again, until it stays. */
  #restart(env: Readonly<Record<string, string>> = {}): Promise<void> {
    const restarting = this.#killAndStart(env);
    this.#running = restarting.catch(() => undefined);
    return restarting;
  }

  async #killAndStart(env: Readonly<Record<string, string>>): Promise<void> {
    for (let next = env; ; next = {}) {
      this.#logs.push(this.gateway.jobgate.logs);
      this.#count("kills");
      try {
        return await this.gateway.restart({ signal: "SIGKILL", env: next });
      } catch (error) {
        // It got to the point of its crash while it was starting.
        if (next !== env) throw error;
      }
    }
  }

  async #verifyFault({ body }: ProxiedRequest, remote: number): Promise<Fault> {
    const { nonce, plan } = this.#asked(body);
    if (plan.verifying === "pass" || !this.#isFirst(`verify ${nonce} ${remote}`)) return PASS;
    this.#count(`verify: ${plan.verifying}`);
    return NO_VERDICTS[plan.verifying] as Fault;
  }

  async #settleFault({ body }: ProxiedRequest, remote: number): Promise<Fault> {
    const { nonce, ...purchase } = this.#asked(body);
    const { settling } = purchase.plan;
    // Without rpc_url, the facilitator's word is all that there is.
    if (this.#mode === "no_rpc" && LIES.includes(settling as Lie)) return PASS;
    if (settling === "pass" || !this.#isFirst(`settle ${nonce} ${remote}`)) return PASS;
    this.#count(`settle: ${settling}`);
    const answer = LOST_SETTLE_ANSWERS[settling] ?? UNHEARD_SETTLE_REQUESTS[settling];
    if (answer !== undefined) return answer;
    const transaction = await this.#meanwhile(settling as Lie | Meanwhile, purchase).catch(revertOnly);
    if (transaction === undefined) return PASS;
    return {
      kind: "answer",
      status: 200,
      body: { success: true, transaction, network: purchase.payment.payload.accepted.network },
    };
  }

  /** @returns the transaction that the facilitator names in place of settling */
  async #meanwhile(what: Lie | Meanwhile, { payment, payer }: Purchase): Promise<string | undefined> {
    const { usdc } = this.parts;
    const { nonce } = payment.signed.authorization;
    switch (what) {
      case "front-run":
        await this.#onChain(() => usdc.transferWithAuthorization(payment.signed));
        return;
      case "cancel":
        await this.#onChain(() => usdc.cancelAuthorization(payer, nonce));
        return;
      case "divert":
      case "empty the wallet": {
        const other = await payStranger(payment, payer, what === "divert" ? { nonce } : {});
        await this.#onChain(() => usdc.transferWithAuthorization(other));
        return;
      }
      case "an invented transaction":
        return `0x${"1e".repeat(32)}`;
      case "an outside transfer":
        return this.outsideTransfers.at(-1) ?? `0x${"2e".repeat(32)}`;
      case "a settlement on another fork":
        return this.#staleNode.settle(payment.signed);
    }
  }

  #rpcFault({ body }: ProxiedRequest): Fault {
    const { rpcAnswers } = this.#plan;
    const answer = rpcAnswers[this.#rpcQuestions++ % rpcAnswers.length] as RpcAnswer;
    if (answer === "healthy") return PASS;
    this.#count(`rpc: ${answer}`);
    switch (answer) {
      case "stale node":
        return this.#staleNode.answer();
      case "stale state":
        return this.#staleNode.answer({ whateverBlock: true });
      case "error": {
        const { id } = JSON.parse(body.toString()) as { id: number };
        const error = { code: -32_000, message: "header not found" };
        return { kind: "answer", status: 200, body: { jsonrpc: "2.0", id, error } };
      }
      case "cut":
      case "lost answer":
      case "500":
      case "garbage":
      case "late":
      case "too late":
        return RPC_FAULTS[answer];
    }
  }

  #asked(body: Buffer): Purchase & { nonce: string } {
    const nonce = /"nonce":"(0x[0-9a-f]{64})"/.exec(body.toString())?.[1] as string;
    return { ...(this.#byNonce.get(nonce) as Purchase), nonce };
  }

  #isFirst(fault: string): boolean {
    if (this.#struck.has(fault)) return false;
    this.#struck.add(fault);
    return true;
  }

  #count(what: string | number): void {
    this.counts.set(String(what), (this.counts.get(String(what)) ?? 0) + 1);
  }

  /** Payments are confirmed also when nobody else pays. */
  async #mine(): Promise<void> {
    while (!this.#stopped) {
      // A busy machine's anvil may miss one.
      await this.parts.anvil.client.mine({ blocks: 1 }).catch(() => undefined);
      this.#chainSecs = await this.parts.chainTimeSecs().catch(() => this.#chainSecs);
      this.#looks.push({ secs: this.#chainSecs, at: performance.now() });
      for (const proxy of this.#remotes) proxy.forget();
      this.gateway.rpcProxy.forget();
      await sleep(BLOCK_EVERY_MS);
    }
  }
}

const PASS: Fault = { kind: "pass" };

const RPC_FAULTS: Readonly<
  Record<Exclude<RpcAnswer, "healthy" | "stale node" | "stale state" | "error">, Fault>
> = {
  cut: { kind: "cut" },
  "lost answer": { kind: "lose-answer" },
  "500": { kind: "answer", status: 500, body: "" },
  garbage: { kind: "answer", status: 200, body: "<html><body>It works!</body></html>" },
  late: { kind: "delay-answer", ms: 300 },
  "too late": { kind: "delay-answer", ms: 6_000 },
};

/** No other answer can follow. */
export function isFinal(answer: Answer | undefined): boolean {
  return answer !== undefined && (answer.status === 202 || answer.retryable === false);
}

/** Only a payment that jobgate has journalled is bound to its job and body. */
function isOfKnown(answer: Answer | undefined): boolean {
  return (
    answer?.status === 202 || answer?.code === "settlement_failed" || answer?.code === "settlement_unknown"
  );
}

async function outage(proxy: FaultProxy, ms: number): Promise<void> {
  await proxy.goDown();
  await sleep(ms);
  await proxy.comeBack();
}

/** Another authorization of the same payer for the same amount, which pays somebody else. */
async function payStranger(payment: Payment, account: TestAccount, own: { nonce?: `0x${string}` } = {}) {
  const { accepted } = payment.payload;
  const { validBefore } = payment.signed.authorization;
  const offer = { accepts: [accepted] } as unknown as PaymentRequired;
  const authorization = { to: accounts.stranger.address, validBefore, ...own };
  return (await signV2Payment({ offer, account, authorization })).signed;
}

/** Used, cancelled or expired already. */
function revertOnly(error: unknown): undefined {
  if (!String(error).includes("revert")) throw error;
}
