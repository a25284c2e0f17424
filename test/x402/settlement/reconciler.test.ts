import { afterEach, describe, expect, it } from "vitest";
import type { PaymentKey } from "../../../src/core/payment.ts";
import type { PaymentJournal } from "../../../src/store/contract/payment-journal.ts";
import { PaymentsInProgress } from "../../../src/x402/settlement/payments-in-progress.ts";
import { Reconciler } from "../../../src/x402/settlement/reconciler.ts";
import type { Settlement } from "../../../src/x402/settlement/settlement.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { claimRequest } from "../../store/store-fixtures.ts";
import { jobCall, paymentToSettle } from "../payment-fixtures.ts";
import { startSettlementHarness } from "./harness.ts";

const harness = startBeforeAll(startSettlementHarness);
let reconciler: Reconciler;
/** Time on the reconciler's clock. */
let elapsedMs: number;
/** Rounds begun by the reconciler. */
let rounds: number;
/** Checks of undecided payments in progress. */
let checking: number;

afterEach(async () => {
  await reconciler?.stop();
  harness.facilitator.clear();
});

const SETTLE_TIMEOUT_MS = 2_000;

async function startReconciler({
  inProgress = new PaymentsInProgress(),
  journal = harness.store,
  hasRpc = false,
  settlement = hasRpc ? harness.withRpc : harness.withoutRpc,
  timeOf = () => undefined,
}: {
  inProgress?: PaymentsInProgress;
  journal?: PaymentJournal;
  hasRpc?: boolean;
  settlement?: Settlement;
  timeOf?: () => number | undefined;
} = {}): Promise<void> {
  elapsedMs = 0;
  rounds = 0;
  checking = 0;
  const evidence = { covers: () => hasRpc, timeOf };
  reconciler = new Reconciler({
    journal: {
      ...journal,
      listUndecided(filter) {
        if (filter.state === "intent") rounds++;
        return journal.listUndecided(filter);
      },
    },
    settlement: {
      async recheck(record) {
        checking++;
        return settlement.recheck(record).finally(() => checking--);
      },
      recheckDecided: (record) => settlement.recheckDecided(record),
      askAgain: (record) => settlement.askAgain(record),
      forgetDecided: () => settlement.forgetDecided(),
    },
    evidence,
    settleTimeoutMs: SETTLE_TIMEOUT_MS,
    inProgress,
    roundMs: 20,
    firstDelayMs: 1_000,
    slowRoundMs: 60_000,
    clock: () => elapsedMs,
    wallClock: harness.clock,
    logger: harness.logger,
  });
  await reconciler.start();
}

/** Resolves after a round that began after the call, and its checks. */
async function wholeRound(): Promise<void> {
  const before = rounds;
  await expect.poll(() => rounds >= before + 2 && checking === 0, { interval: 5 }).toBe(true);
}

/** The store as one of several replicas sees it. */
const sharedJournal = (): PaymentJournal => ({ ...harness.store, isShared: true });

/** Begins a payment without a settlement request that reaches the facilitator. */
async function undecidedPayment() {
  harness.facilitator.add({ path: "/settle", fault: { kind: "cut" } });
  const payment = await paymentToSettle({ anvil: harness.anvil, token: harness.usdc, validSecs: 7_200 });
  await harness.withoutRpc.settle(payment.intent, jobCall);
  return payment;
}

const settles = (nonce: string): number =>
  harness.facilitator.requests.filter(({ path, body }) => path === "/settle" && body.includes(nonce)).length;

it("An undecided payment is checked again after 1 s, then after twice as long each time, at most 30 s", async () => {
  const { signed } = await undecidedPayment();
  const { nonce } = signed.authorization;
  await startReconciler();
  await expect.poll(() => settles(nonce)).toBe(2);
  let expected = 2;
  for (const delaySecs of [1, 2, 4, 8, 16, 30, 30]) {
    await wholeRound();
    elapsedMs += delaySecs * 1000 - 1;
    await wholeRound();
    expect(settles(nonce)).toBe(expected);
    elapsedMs += 1;
    await expect.poll(() => settles(nonce)).toBe(++expected);
  }
});

it("A payment that a request is working on is left alone until the request is done", async () => {
  const { intent, signed } = await undecidedPayment();
  const inProgress = new PaymentsInProgress();
  let answer: () => void = () => undefined;
  const waiting = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const request = inProgress.join(intent, async () => {
    await waiting;
    return { kind: "undecided" };
  });
  await startReconciler({ inProgress });
  await wholeRound();
  expect(settles(signed.authorization.nonce)).toBe(1);
  answer();
  await request;
  await expect.poll(() => settles(signed.authorization.nonce)).toBe(2);
});

it("A payment that was decided after it was listed is not settled again", async () => {
  const { intent, signed } = await undecidedPayment();
  const { store } = harness;
  const listed = await store.listUndecided({ state: "intent", limit: 100 });
  expect(listed.map(({ fingerprint }) => fingerprint)).toContain(intent.fingerprint);
  for (const { key } of listed) await store.settlePayment(key, JSON.stringify({ success: true }));
  const before = settles(signed.authorization.nonce);
  await startReconciler({ journal: { ...store, listUndecided: async () => listed } });
  await wholeRound();
  expect(settles(signed.authorization.nonce)).toBe(before);
});

it("A payment whose check takes long does not hold up the checks of others", async () => {
  const slow = await undecidedPayment();
  let answer: () => void = () => undefined;
  const until = new Promise<void>((resolve) => {
    answer = resolve;
  });
  harness.facilitator.clear();
  const when = ({ body }: { body: Buffer }) => body.includes(slow.signed.authorization.nonce);
  harness.facilitator.add({ path: "/settle", when, fault: { kind: "hold-request", until } });
  await startReconciler();
  await expect.poll(() => settles(slow.signed.authorization.nonce)).toBe(2);
  const other = await paymentToSettle({ anvil: harness.anvil, token: harness.usdc, validSecs: 7_200 });
  harness.facilitator.add({ path: "/settle", times: 1, fault: { kind: "cut" } });
  await harness.withoutRpc.settle(other.intent, jobCall);
  await expect.poll(async () => (await harness.store.findPayment(other.intent.key))?.state).toBe("settled");
  answer();
});

it("A payment left behind by a crashed process is settled once the facilitator answers", async () => {
  const { intent } = await undecidedPayment();
  harness.facilitator.clear();
  await startReconciler();
  await expect.poll(async () => (await harness.store.findPayment(intent.key))?.state).toBe("settled");
});

it("On a shared store, a payment that another replica may be settling is left alone until that must have ended", async () => {
  const { signed } = await undecidedPayment();
  await startReconciler({ journal: sharedJournal() });
  await wholeRound();
  expect(settles(signed.authorization.nonce)).toBe(1);
  harness.moveClock(SETTLE_TIMEOUT_MS + 5_000);
  await expect.poll(() => settles(signed.authorization.nonce)).toBe(2);
});

it("On a shared store, a payment that this replica left undecided is checked again at once", async () => {
  const inProgress = new PaymentsInProgress();
  const { intent, signed } = await undecidedPayment();
  await inProgress.join(intent, async () => ({ kind: "undecided", replayed: true }));
  await startReconciler({ inProgress, journal: sharedJournal() });
  await wholeRound();
  expect(settles(signed.authorization.nonce)).toBe(1);
  await inProgress.join(intent, async () => ({ kind: "undecided" }));
  await expect.poll(() => settles(signed.authorization.nonce)).toBe(2);
});

describe("With the token's rpc_url", () => {
  const stateOf = async (key: PaymentKey) => (await harness.store.findPayment(key))?.state;
  /** Makes the next look at recent decisions due. */
  const skipAnHour = () => {
    elapsedMs += 3_600_000;
  };

  it("A failed payment that the chain later shows as paid is settled after all, logged and counted, and queued once", async () => {
    const { intent, signed } = await undecidedPayment();
    const { callId = 0 } = (await harness.store.findPayment(intent.key)) ?? {};
    await harness.store.failPayment(intent.key, "{}", "the authorization expired unused");
    const before = harness.contradicted.length;
    const transaction = await harness.usdc.transferWithAuthorization(signed);
    await startReconciler({ hasRpc: true });
    await expect.poll(() => stateOf(intent.key)).toBe("settled");
    expect(await harness.store.findPayment(intent.key)).toMatchObject({
      settlement: expect.stringContaining(transaction),
      reason: "recorded as failed before: the authorization expired unused",
    });
    expect(harness.messages).toContain(
      "a payment recorded as failed turned out to be paid: its job is queued",
    );
    expect(harness.contradicted.slice(before)).toEqual(["failed"]);
    const claimed = await harness.store.claim(claimRequest({ limit: 100 }));
    expect(claimed.calls.filter((call) => call.callId === callId)).toHaveLength(1);
  });

  it("A failed payment whose authorization is still unused stays failed, and is checked again later", async () => {
    const { intent, signed } = await undecidedPayment();
    await harness.store.failPayment(intent.key, "{}", "cancelled");
    let looks = 0;
    const journal: PaymentJournal = {
      ...harness.store,
      findPayment(key) {
        if (key.nonce === intent.key.nonce) looks += 1;
        return harness.store.findPayment(key);
      },
    };
    await startReconciler({ hasRpc: true, journal });
    await expect.poll(() => looks).toBe(1);
    await harness.usdc.transferWithAuthorization(signed);
    // The first look may still be under way: the next one is an hour after its end.
    const stateLater = () => {
      skipAnHour();
      return stateOf(intent.key);
    };
    await expect.poll(stateLater).toBe("settled");
  });

  it("A payment that moved nothing is decided within 15 s of the end by the chain's clock, though most checks fail then", async () => {
    const { intent } = await undecidedPayment();
    let chainMs = 0;
    let checks = 0;
    const journal: PaymentJournal = {
      ...harness.store,
      findPayment(key) {
        if (key.nonce === intent.key.nonce) checks += 1;
        return harness.store.findPayment(key);
      },
    };
    await startReconciler({ hasRpc: true, journal, settlement: harness.patient(1), timeOf: () => chainMs });
    await expect.poll(() => checks).toBe(1);
    for (const delaySecs of [1, 2, 4, 8, 16, 30]) {
      const before = checks;
      await wholeRound();
      elapsedMs += delaySecs * 1_000;
      await expect.poll(() => checks).toBe(before + 1);
    }
    await harness.anvil.client.increaseTime({ seconds: 7_300 });
    await harness.anvil.client.mine({ blocks: 1 });
    chainMs = harness.clock() + 7_300_000;
    await wholeRound();
    elapsedMs += 30_000;
    harness.rpc.add({ fault: { kind: "answer", status: 500, body: "" } });
    const endedAt = elapsedMs;
    const nextLook = async () => {
      elapsedMs += 1_000;
      await wholeRound();
    };
    for (let secs = 0; secs < 8; secs++) await nextLook();
    harness.rpc.clear();
    const stateLater = async () => {
      await nextLook();
      return stateOf(intent.key);
    };
    await expect.poll(stateLater, { interval: 100 }).toBe("failed");
    expect(elapsedMs - endedAt).toBeLessThanOrEqual(15_000);
  });

  it("A payment closed as paid that the chain shows as not paid is logged, counted once, and noted in the journal", async () => {
    const { intent } = await undecidedPayment();
    await harness.store.leavePaymentUnresolved(intent.key, "nobody knows");
    await harness.store.closePayment(intent.key, { as: "paid", by: "ada", note: "an error" });
    const before = harness.contradicted.length;
    await harness.anvil.client.increaseTime({ seconds: 7_300 });
    await harness.anvil.client.mine({ blocks: 1 });
    await startReconciler({ hasRpc: true });
    const reasonOf = async () => {
      skipAnHour();
      return (await harness.store.findPayment(intent.key))?.reason;
    };
    // Two looks: the first does not decide it.
    await expect
      .poll(reasonOf, { interval: 1_000 })
      .toBe("the chain shows that it was not paid: the authorization expired unused");
    expect(await stateOf(intent.key)).toBe("settled");
    expect(harness.messages).toContain("a payment was closed as paid, and the chain shows that it was not");
    expect(harness.contradicted.slice(before)).toEqual(["settled"]);
  });
});

it("A decided payment is checked when it is listed first, and again each time that it is twice as old", async () => {
  await undecidedPayment();
  const [undecided] = await harness.store.listUndecided({ state: "intent", limit: 1 });
  if (undecided === undefined) throw new Error("no payment is undecided");
  const failed = { ...undecided, state: "failed" } as const;
  const journal: PaymentJournal = {
    ...harness.store,
    listUndecided: async ({ state }) => (state === "watched" ? [{ ...failed, ageMs: elapsedMs }] : []),
    findPayment: async () => failed,
  };
  let checks = 0;
  const settlement: Pick<Settlement, "recheckDecided" | "forgetDecided"> = {
    recheckDecided: async () => void checks++,
    forgetDecided: async () => undefined,
  };
  await startReconciler({ journal, settlement: settlement as Settlement });
  const found: number[] = [];
  for (let minute = 0; minute <= 8; minute++) {
    elapsedMs = minute * 60_000;
    await wholeRound();
    found.push(checks);
  }
  expect(found).toEqual([1, 2, 3, 3, 4, 4, 4, 4, 5]);
});
