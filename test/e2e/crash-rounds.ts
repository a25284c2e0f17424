import { expect } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { ACCEPTED, FAILED, UNDECIDED } from "./expected-answers.ts";
import { expectBalance } from "./ledger.ts";
import { type PaidGateway, type Payment, type SetUp, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, type PaidParts, startPaidParts } from "./paid-parts.ts";

/** Points of a sale at which jobgate is killed with SIGKILL. */
export const SALE_CRASHES = [
  "before-journal",
  "after-journal",
  "during settle",
  "after-settle",
  "after-commit",
  "before-delivery",
] as const;
export const CRASHES = [...SALE_CRASHES, "before-ack"] as const;
export type Crash = (typeof CRASHES)[number];

const FACILITATOR_TIMEOUT_SECS = 10;
/** On a shared store, another replica might be at it for a minute and {@link FACILITATOR_TIMEOUT_SECS}. */
const DECIDED_WITHIN_MS = 250_000;

/** Expected outcome of a payment after the restart, once jobgate has decided. */
type End = "job" | "not paid" | "undecided";

/**
 * With `rpc_url` the chain decides, and an unused authorization is settled again. Without it settlement is requested again, and once the nonce is
 * used the facilitator's no proves nothing: the operator has to decide such a payment, and its job does not run.
 */
const ENDS: Readonly<Record<Crash, Readonly<Record<SetUp, End>>>> = {
  "before-journal": { rpc_url: "job", "no rpc_url": "job" },
  "after-journal": { rpc_url: "job", "no rpc_url": "job" },
  "during settle": { rpc_url: "job", "no rpc_url": "undecided" },
  "after-settle": { rpc_url: "job", "no rpc_url": "undecided" },
  "after-commit": { rpc_url: "job", "no rpc_url": "job" },
  "before-delivery": { rpc_url: "job", "no rpc_url": "job" },
  "before-ack": { rpc_url: "job", "no rpc_url": "job" },
};

/** One jobgate that is crashed again and again on one store. */
export interface CrashSite {
  /** Crashes once during a payment, starts again, resends, and checks the outcome. */
  round(crash: Crash): Promise<void>;
  /** Checks that chain, journal and the runner's jobs agree, over all rounds. */
  expectAllAccounted(): Promise<void>;
  stop(): Promise<void>;
}

interface SiteOptions {
  /** A round that leaves a payment undecided is the site's last; default: it takes place on a site of its own. */
  readonly leavesUndecided?: boolean;
  /** Makes an empty Postgres store; default: a SQLite file. */
  readonly newStoreUrl?: (() => Promise<string>) | undefined;
}

export async function startCrashSite(
  setUp: SetUp,
  { leavesUndecided = false, newStoreUrl }: SiteOptions = {},
): Promise<CrashSite> {
  const parts = await startPaidParts();
  const gateway = await startPaidGateway({
    parts,
    setUp,
    facilitatorTimeoutSecs: FACILITATOR_TIMEOUT_SECS,
    leaseSecs: 1,
    // On a busy machine a short lease may run out several times.
    edit: (config) => config.replace("[runner]", "[runner]\nmax_attempts = 100"),
    ...(newStoreUrl === undefined ? {} : { storeUrl: await newStoreUrl() }),
  });
  const sold: { payment: Payment; body: string; end: End }[] = [];

  return {
    async round(crash) {
      const end = ENDS[crash][setUp];
      if (end === "undecided" && !leavesUndecided) return roundOfItsOwn(setUp, crash, newStoreUrl);
      const body = `${crash} ${sold.length}`;
      const payment = await crashOnce(parts, gateway, crash, body);
      sold.push({ payment, body, end });
      if (end === "not paid") await parts.passTime(301);
      await expectEnd(gateway, { payment, body, end });
    },
    async expectAllAccounted() {
      for (const { payment, body, end } of sold)
        await expectAccounted({ parts, gateway, payment, body, end });
      const moved = sold.filter(({ end }) => end !== "not paid").length;
      expect(await parts.usdc.balanceOf(accounts.payTo.address)).toBe(BigInt(moved) * AMOUNT);
      expect(await gateway.journal.totals()).toMatchObject({
        payments: {
          settled: sold.filter(({ end }) => end === "job").length,
          failed: sold.filter(({ end }) => end === "not paid").length,
          intent: sold.filter(({ end }) => end === "undecided").length,
          unresolved: 0,
        },
        paidCalls: { ready: 0, leased: 0, dead: 0 },
      });
      await expectBalance(gateway);
    },
    async stop() {
      await gateway.stop();
      await parts.stop();
    },
  };
}

/**
 * An undecided payment is asked for again and again, and each refusal leaves the facilitator's wallet a nonce short for
 * a moment: beside it, other settlements may come late.
 */
async function roundOfItsOwn(
  setUp: SetUp,
  crash: Crash,
  newStoreUrl: SiteOptions["newStoreUrl"],
): Promise<void> {
  const site = await startCrashSite(setUp, { leavesUndecided: true, newStoreUrl });
  try {
    await site.round(crash);
    await site.expectAllAccounted();
  } finally {
    await site.stop();
  }
}

/** @returns the payment that was on its way when jobgate was killed; jobgate is up again */
async function crashOnce(
  parts: PaidParts,
  gateway: PaidGateway,
  crash: Crash,
  body: string,
): Promise<Payment> {
  if (crash === "during settle") {
    await gateway.restart({ asProcess: true });
    const payment = await gateway.sign();
    const killed = gateway.duringSettle(async () => {
      gateway.jobgate.kill("SIGKILL");
      await gateway.jobgate.exited;
    }, payment);
    await expect(gateway.send(payment, { body })).rejects.toThrow();
    await killed;
    // The facilitator settles although nobody waits for its answer.
    const { from, nonce } = payment.signed.authorization;
    await expect.poll(() => parts.usdc.authorizationState(from, nonce)).toBe(true);
    await gateway.startAgain();
    return payment;
  }
  await gateway.restart({ env: { JOBGATE_CRASH_AT: crash } });
  const payment = await gateway.sign();
  const answer = gateway.send(payment, { body });
  // The answer and the crash race after the delivery.
  if (crash === "before-delivery" || crash === "before-ack") await answer.catch(() => undefined);
  else await expect(answer, gateway.jobgate.logs.join("\n")).rejects.toThrow();
  expect(await gateway.jobgate.exited).toEqual({ code: null, signal: "SIGKILL" });
  await gateway.startAgain();
  return payment;
}

interface Sold {
  readonly payment: Payment;
  readonly body: string;
  readonly end: End;
}

async function expectEnd(gateway: PaidGateway, { payment, body, end }: Sold): Promise<void> {
  if (end === "undecided") {
    const timeout = DECIDED_WITHIN_MS;
    await expect.poll(() => settlesOf(gateway, payment), { timeout }).toBeGreaterThanOrEqual(2);
    expect(await gateway.send(payment, { body })).toEqual(UNDECIDED);
    return;
  }
  const answer = await gateway.sendUntilDecided(payment, { body, timeoutMs: DECIDED_WITHIN_MS });
  if (end === "not paid") {
    expect(answer).toMatchObject(FAILED);
    return;
  }
  expect(answer).toMatchObject(ACCEPTED);
  expect(await gateway.send(payment, { body })).toEqual(answer);
  const callId = answer.call_id as number;
  await gateway.waitForJobs(body);
  await expect.poll(() => gateway.journal.callState(callId)).toBe("succeeded");
}

async function expectAccounted(options: Sold & { parts: PaidParts; gateway: PaidGateway }): Promise<void> {
  const { parts, gateway, payment, body, end } = options;
  const record = await gateway.journal.paymentOf(payment.signed);
  const deliveries = gateway.jobsWith(body);
  const { from, nonce } = payment.signed.authorization;
  const states = { job: "settled", "not paid": "failed", undecided: "intent" } as const;
  expect(record?.state).toBe(states[end]);
  expect(await parts.usdc.authorizationState(from, nonce)).toBe(end !== "not paid");
  if (end !== "job") {
    expect(deliveries).toEqual([]);
    return;
  }
  // One JobCall; a repeated delivery says so by its attempt.
  expect(new Set(deliveries.map(({ callId }) => Number(callId)))).toEqual(new Set([record?.callId]));
  const attempts = deliveries.map(({ attempt }) => attempt);
  expect(attempts).toEqual([...new Set(attempts)].sort((left, right) => left - right));
}

function settlesOf({ facilitatorProxy }: PaidGateway, { signed }: Payment): number {
  return facilitatorProxy.requests.filter(
    ({ path, body }) => path === "/settle" && body.includes(signed.authorization.nonce),
  ).length;
}
