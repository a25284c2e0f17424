import { describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { SALE_CRASHES } from "./crash-rounds.ts";
import { expectBalance } from "./ledger.ts";
import { inDollars, type PaidGateway, startPaidGateway } from "./paid-gateway.ts";
import { type PaidParts, startPaidParts } from "./paid-parts.ts";

/** Steps of a sale at which jobgate is killed with SIGKILL. */
const CRASHES = ["before the payment", ...SALE_CRASHES] as const;
type Crash = (typeof CRASHES)[number];

const JOB = 5;
const DECIDED_WITHIN_MS = 250_000;

/** Starts a pricer whose price is a cent more at each question. */
async function startChangingPricer() {
  const asked: number[] = [];
  const { url, stop } = await listenHttp({
    handler: (request, response) => {
      const cents = 10 + asked.length;
      asked.push(cents);
      request.resume().once("end", () => response.end(JSON.stringify({ price: `$0.${cents}` })));
    },
  });
  return { url, stop, asked };
}

/** A jobgate that sells at the prices of a pricer, and is killed again and again on one store. */
class CrashSite {
  readonly #parts: PaidParts;
  readonly #gateway: PaidGateway;
  readonly #pricer: Awaited<ReturnType<typeof startChangingPricer>>;
  /** Token units of what was bought. */
  #sold = 0n;

  constructor(
    parts: PaidParts,
    gateway: PaidGateway,
    pricer: Awaited<ReturnType<typeof startChangingPricer>>,
  ) {
    this.#parts = parts;
    this.#gateway = gateway;
    this.#pricer = pricer;
  }

  static async start(storeUrl?: string) {
    const [parts, pricer] = await Promise.all([startPaidParts(), startChangingPricer()]);
    const job = `[[jobs]]
job_index = ${JOB}
mode = "public_paid"
price = { url = "${pricer.url}", max = "$1" }
[job_pricing.1]`;
    const gateway = await startPaidGateway({
      ...{ parts, setUp: "rpc_url", leaseSecs: 1, asProcess: true },
      edit: (config) => inDollars(config).replace("[job_pricing.1]", job),
      ...(storeUrl === undefined ? {} : { storeUrl }),
    });
    const site = new CrashSite(parts, gateway, pricer);
    return {
      round: (crash: Crash) => site.round(crash),
      expectAllAccounted: () => site.expectAllAccounted(),
      stop: () => site.stop(),
    };
  }

  /** Kills jobgate during a sale, starts it again, and expects the sale at the price of its offer. */
  async round(crash: Crash): Promise<void> {
    const gateway = this.#gateway;
    const body = `${crash} ${this.#sold}`;
    const selling = { job: JOB, body };
    const questions = this.#pricer.asked.length;
    const payment = await gateway.sign(selling);
    const cents = this.#pricer.asked.at(-1) ?? 0;
    // Another request has another price meanwhile.
    await gateway.sign({ job: JOB, body: `not ${body}` });
    await this.#crash(crash, payment, selling);
    const answer = await gateway.sendUntilDecided(payment, { ...selling, timeoutMs: DECIDED_WITHIN_MS });
    expect(answer).toMatchObject({ status: 202, settlement: { success: true } });
    const amount = BigInt(cents) * 10_000n;
    expect(await gateway.journal.paymentOf(payment.signed)).toMatchObject({
      ...{ state: "settled", amount: String(amount), price: `$0.${cents}` },
    });
    const calls = await gateway.waitForJobs(body);
    expect(new Set(calls.map(({ callId }) => callId)).size).toBe(1);
    expect(calls[0]?.metadata["X-X402-PRICE"]).toBe(`$0.${cents}`);
    // Nobody is asked for the price of a payment.
    expect(this.#pricer.asked.length - questions).toBe(2);
    this.#sold += amount;
  }

  async #crash(
    crash: Crash,
    payment: Awaited<ReturnType<PaidGateway["sign"]>>,
    selling: { readonly job: number; readonly body: string },
  ): Promise<void> {
    const gateway = this.#gateway;
    const isPoint = crash !== "before the payment" && crash !== "during settle";
    await gateway.restart({
      ...{ asProcess: true, signal: "SIGKILL" },
      ...(isPoint && { env: { JOBGATE_CRASH_AT: crash } }),
    });
    const kill = async () => {
      gateway.jobgate.kill("SIGKILL");
      await gateway.jobgate.exited;
    };
    if (crash === "before the payment") await kill();
    else {
      const killed = crash === "during settle" ? gateway.duringSettle(kill, payment) : undefined;
      // The answer and the crash race after the delivery.
      await gateway.send(payment, selling).catch(() => undefined);
      await killed;
    }
    await gateway.startAgain({ asProcess: true });
  }

  async expectAllAccounted(): Promise<void> {
    expect(await this.#parts.usdc.balanceOf(accounts.payTo.address)).toBe(this.#sold);
    await expectBalance(this.#gateway);
  }

  async stop(): Promise<void> {
    await this.#gateway.stop();
    await Promise.all([this.#parts.stop(), this.#pricer.stop()]);
  }
}

describe("A request at the price of a pricer that changes its mind, on SQLite", () => {
  const site = startBeforeAll(() => CrashSite.start());

  it.each(CRASHES)("is bought once, at the price of its offer, if jobgate is killed %s", async (crash) => {
    await site.round(crash);
  });

  it("is paid for once, and each payment has its job", () => site.expectAllAccounted());
});

describe("The same, on Postgres", () => {
  const postgres = startBeforeAll(startPostgres);
  const site = startBeforeAll(async () => CrashSite.start(await postgres.createDatabase()));

  it.each(["before the payment", "after-journal", "during settle", "after-commit"] as const)(
    "is bought once, at the price of its offer, if jobgate is killed %s",
    { timeout: 1_800_000 },
    async (crash) => {
      await site.round(crash);
    },
  );

  it("is paid for once, and each payment has its job", () => site.expectAllAccounted());
});
