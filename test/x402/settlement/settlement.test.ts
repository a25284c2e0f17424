import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { movedElsewhere, type PaymentIntent, type PaymentRecord } from "../../../src/core/payment.ts";
import { accounts } from "../../helpers/accounts.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { claimOne } from "../../store/store-fixtures.ts";
import { jobCall, type PaymentToSettle, paymentToSettle } from "../payment-fixtures.ts";
import { startSettlementHarness } from "./harness.ts";

const harness = startBeforeAll(startSettlementHarness);

afterEach(() => {
  harness.facilitator.clear();
  harness.journal.fails = false;
  harness.journal.losesAnswers = false;
});

const newPayment = (validSecs = 300): Promise<PaymentToSettle> =>
  paymentToSettle({ anvil: harness.anvil, token: harness.usdc, validSecs });

async function recordOf({ key }: PaymentIntent): Promise<PaymentRecord> {
  const record = await harness.store.findPayment(key);
  if (record === undefined) throw new Error("the payment is not in the journal");
  return record;
}

/** The store stops writing while the facilitator works, and the facilitator answers or not. */
function storeFailsDuringSettle(fault: "pass" | "cut"): void {
  const when = (): boolean => {
    harness.journal.fails = true;
    return true;
  };
  harness.facilitator.add({ path: "/settle", when, times: 1, fault: { kind: fault } });
}

describe("A charge that the chain shows as settled, and the journal does not", () => {
  /** Charges a job in a process that ends before it can write that down. */
  async function charged(charge: "used" | "after" = "used"): Promise<PaymentRecord> {
    const { intent } = await newPayment();
    await harness.withRpc.settle({ ...intent, charge }, jobCall);
    await harness.store.ack(await claimOne(harness.store));
    harness.journal.fails = true;
    const record = await recordOf(intent);
    expect(await harness.patient(1).charge(record)).toEqual({ kind: "undecided" });
    harness.journal.fails = false;
    return record;
  }

  it("Counts in the next process, even if the clock was set back", async () => {
    harness.moveClock(3_600_000);
    const record = await charged();
    harness.moveClock(-3_600_000);
    expect(await harness.patient(1).charge(record)).toMatchObject({ kind: "accepted" });
  });

  it("Was made for something else, if this process has decided the charge and not requested it", async () => {
    const record = await charged();
    const settlement = harness.patient(1);
    settlement.noteCharge(record.callId, record.amount);
    expect(await settlement.charge(record)).toMatchObject({
      kind: "failed",
      settlement: { success: false, amount: record.amount, transaction: expect.stringMatching(/^0x/) },
    });
    const { reason, state } = await recordOf(record);
    expect(state).toBe("failed");
    expect(reason).toMatch(
      /^the authorization had already paid 3.264 USDC in transaction 0x[0-9a-f]{64}, before this job's charge; this gateway requested no payment$/,
    );
    // The charge's own alert was enough.
    const before = harness.contradicted.length;
    await settlement.recheckDecided(await recordOf(record));
    expect(harness.contradicted.slice(before)).toEqual([]);
  });

  it("Is accepted for an exact payment in a process that has not requested it, which calls the facilitator before the chain", async () => {
    const record = await charged("after");
    const settlement = harness.patient(1);
    settlement.noteCharge(record.callId, record.amount);
    const settles = harness.facilitator.count("/settle");
    expect(await settlement.charge(record)).toMatchObject({ kind: "accepted" });
    expect(harness.facilitator.count("/settle")).toBe(settles + 1);
  });

  it("Is accepted in one of several replicas, which queries the chain first, because another replica may have requested it", async () => {
    const record = await charged("after");
    const settlement = harness.patient(1);
    settlement.noteCharge(record.callId, record.amount);
    const settles = harness.facilitator.count("/settle");
    Object.assign(harness.journal, { isShared: true });
    onTestFinished(() => void Object.assign(harness.journal, { isShared: false }));
    expect(await settlement.charge(record)).toMatchObject({ kind: "accepted" });
    expect(harness.facilitator.count("/settle")).toBe(settles);
  });

  it("Stays failed when it was recorded as failed, and is logged and counted once with what moved", async () => {
    const record = await charged();
    await harness.store.failPayment(record.key, "{}", "the payer cancelled the authorization");
    const before = harness.contradicted.length;
    const settlement = harness.patient(1);
    for (let look = 0; look < 2; look++) await settlement.recheckDecided(await recordOf(record));
    expect(harness.contradicted.slice(before)).toEqual(["failed"]);
    expect(harness.messages).toContain("an authorization moved money without a charge of this gateway");
    const { state, reason, settlement: told } = await recordOf(record);
    expect(state).toBe("failed");
    expect(reason).toMatch(/^the authorization paid 3.264 USDC in transaction 0x/);
    expect(movedElsewhere(told)).toMatchObject({ amount: record.amount, reason });
  });
});

describe("A store that cannot write", () => {
  it("Before settling: the refusal says so, and the facilitator is not called", async () => {
    const { intent } = await newPayment();
    const settles = harness.facilitator.count("/settle");
    harness.journal.fails = true;
    await expect(harness.withRpc.settle(intent, jobCall)).rejects.toMatchObject({
      code: "store_unavailable",
    });
    expect(harness.facilitator.count("/settle")).toBe(settles);
  });

  it("Before settling, and lost while it commits: no answer claims that nothing was charged, and a resend joins the payment", async () => {
    const { intent } = await newPayment();
    const settles = harness.facilitator.count("/settle");
    harness.journal.losesAnswers = true;
    await expect(harness.withRpc.settle(intent, jobCall)).rejects.toMatchObject({
      code: "store_unavailable",
      details: { charged: "unknown" },
      headers: { "retry-after": "5" },
    });
    expect(harness.messages).toContain("it is not known whether a payment was journalled");
    harness.journal.losesAnswers = false;
    expect(await harness.withRpc.settle(intent, jobCall)).toEqual({ kind: "undecided", replayed: true });
    expect(harness.facilitator.count("/settle")).toBe(settles);
    expect(await harness.withoutRpc.recheck(await recordOf(intent))).toMatchObject({ kind: "accepted" });
  });

  it.each(["withRpc", "withoutRpc"] as const)(
    "After settling, %s: undecided, not refused; the settlement is recorded later without another request",
    async (setUp) => {
      const { intent } = await newPayment();
      storeFailsDuringSettle("pass");
      expect(await harness[setUp].settle(intent, jobCall)).toEqual({ kind: "undecided" });
      const record = await recordOf(intent);
      expect(record.state).toBe("intent");
      expect(await harness[setUp].recheck(record)).toEqual({ kind: "undecided" });

      harness.journal.fails = false;
      await harness[setUp].forgetDecided();
      const settles = harness.facilitator.count("/settle");
      expect(await harness[setUp].recheck(record)).toMatchObject({ kind: "accepted", callId: record.callId });
      expect(harness.facilitator.count("/settle")).toBe(settles);
      expect((await recordOf(intent)).state).toBe("settled");
    },
  );

  it("After settling, and settled by another replica before that: it is forgotten", async () => {
    const { intent } = await newPayment();
    storeFailsDuringSettle("pass");
    await harness.withoutRpc.settle(intent, jobCall);
    const record = await recordOf(intent);
    harness.journal.fails = false;
    await harness.store.settlePayment(intent.key, "{}");
    await harness.withoutRpc.forgetDecided();
    // A settlement that knew it to be paid would not ask.
    const settles = harness.facilitator.count("/settle");
    await harness.withoutRpc.recheck(record);
    expect(harness.facilitator.count("/settle")).toBe(settles + 1);
  });

  it("After settling, and failed by another replica before that: it is settled after all, and counted", async () => {
    const { intent } = await newPayment();
    storeFailsDuringSettle("pass");
    await harness.withoutRpc.settle(intent, jobCall);
    harness.journal.fails = false;
    await harness.store.failPayment(intent.key, "{}", "another view");
    const before = harness.contradicted.length;
    await harness.withoutRpc.forgetDecided();
    expect(await recordOf(intent)).toMatchObject({ state: "settled" });
    expect(harness.contradicted.slice(before)).toEqual(["failed"]);
  });

  it("When it is certain that nothing was paid: undecided until that is recorded", async () => {
    const { intent, signed } = await newPayment();
    await harness.usdc.cancelAuthorization(accounts.payer, signed.authorization.nonce);
    storeFailsDuringSettle("cut");
    expect(await harness.withRpc.settle(intent, jobCall)).toEqual({ kind: "undecided" });
    harness.journal.fails = false;
    expect(await harness.withRpc.recheck(await recordOf(intent))).toMatchObject({ kind: "failed" });
    expect((await recordOf(intent)).state).toBe("failed");
  });

  it("When the payment becomes unresolved: undecided, and unresolved later", async () => {
    const { intent } = await newPayment(60);
    harness.facilitator.add({ path: "/settle", times: 1, fault: { kind: "cut" } });
    await harness.withoutRpc.settle(intent, jobCall);
    harness.moveClock(61_000);
    harness.journal.fails = true;
    expect(await harness.withoutRpc.recheck(await recordOf(intent))).toEqual({ kind: "undecided" });
    harness.journal.fails = false;
    await harness.withoutRpc.recheck(await recordOf(intent));
    expect((await recordOf(intent)).state).toBe("unresolved");
  });
});

it("A settlement that the chain never shows is waited for no longer when the clock is set back", async () => {
  const { intent } = await newPayment();
  const body = { success: true, transaction: `0x${"11".repeat(32)}`, network: "eip155:84532" };
  harness.facilitator.add({ path: "/settle", fault: { kind: "answer", status: 200, body } });
  let setBackMs = 0;
  const when = (): boolean => {
    setBackMs += 3_600_000;
    harness.moveClock(-3_600_000);
    return true;
  };
  harness.rpc.add({ when, fault: { kind: "pass" } });
  onTestFinished(() => {
    harness.rpc.clear();
    harness.moveClock(setBackMs);
  });
  expect(await harness.patient(1).settle(intent, jobCall)).toEqual({ kind: "undecided" });
  expect(setBackMs).toBeGreaterThan(0);
});

describe("With rpc_url, a payment that the facilitator did not settle", () => {
  async function undecidedPayment(validSecs = 3_600) {
    const payment = await newPayment(validSecs);
    const { nonce } = payment.signed.authorization;
    const settles = () =>
      harness.facilitator.requests.filter(({ path, body }) => path === "/settle" && body.includes(nonce))
        .length;
    harness.facilitator.add({ path: "/settle", times: 1, fault: { kind: "answer", status: 500, body: "" } });
    expect(await harness.withRpc.settle(payment.intent, jobCall)).toEqual({ kind: "undecided" });
    return { ...payment, settles };
  }

  it("Is settled again on a resend, at most once in 5 s, after an observation that shows the authorization unused", async () => {
    const { intent, settles } = await undecidedPayment();
    expect(await harness.withRpc.retry(await recordOf(intent))).toEqual({ kind: "undecided" });
    expect(settles()).toBe(1);
    harness.letPass(5_000);
    const [first, second] = await Promise.all([
      harness.withRpc.retry(await recordOf(intent)),
      harness.withRpc.retry(await recordOf(intent)),
    ]);
    expect(settles()).toBe(2);
    expect([first.kind, second.kind]).toContain("accepted");
    expect((await recordOf(intent)).state).toBe("settled");
  });

  it("Is not settled again when the chain shows that the authorization was used", async () => {
    const { intent, signed, settles } = await undecidedPayment();
    await harness.usdc.transferWithAuthorization(signed);
    harness.letPass(5_000);
    expect(await harness.withRpc.retry(await recordOf(intent))).toMatchObject({ kind: "accepted" });
    expect(settles()).toBe(1);
  });

  it("Is not settled again by a replica that read it where a fail-over could lose it", async () => {
    const { intent, settles } = await undecidedPayment();
    harness.letPass(30_000);
    const { confirmPayment } = harness.journal;
    Object.assign(harness.journal, { isShared: true, confirmPayment: async () => false });
    onTestFinished(() => void Object.assign(harness.journal, { isShared: false, confirmPayment }));
    const record = await recordOf(intent);
    expect(await harness.withRpc.askAgain(record)).toEqual({ kind: "undecided" });
    expect(await harness.withoutRpc.recheck(record)).toEqual({ kind: "undecided" });
    expect(await harness.withRpc.charge({ ...record, charge: "after" })).toEqual({ kind: "undecided" });
    expect(settles()).toBe(1);
    Object.assign(harness.journal, { confirmPayment });
    expect(await harness.withRpc.askAgain(record)).toMatchObject({ kind: "accepted" });
    expect(settles()).toBe(2);
  });

  it("Is not settled again with less than 6 s left", async () => {
    const { intent, settles } = await undecidedPayment(10);
    harness.letPass(5_000);
    expect(await harness.withRpc.retry(await recordOf(intent))).toEqual({ kind: "undecided" });
    expect(await harness.withRpc.askAgain(await recordOf(intent))).toEqual({ kind: "undecided" });
    expect(settles()).toBe(1);
  });
});

describe("Without rpc_url", () => {
  it("The facilitator is called until the authorization has expired; then the payment is unresolved, logged once", async () => {
    const { intent, signed } = await newPayment(3_600);
    harness.facilitator.add({ path: "/settle", times: 1, fault: { kind: "lose-answer" } });
    expect(await harness.withoutRpc.settle(intent, jobCall)).toEqual({ kind: "undecided" });
    // The money moved: the facilitator's no proves nothing.
    expect(await harness.usdc.authorizationState(signed.authorization.from, signed.authorization.nonce)).toBe(
      true,
    );
    const settles = harness.facilitator.count("/settle");
    expect(await harness.withoutRpc.recheck(await recordOf(intent))).toEqual({ kind: "undecided" });
    expect(harness.facilitator.count("/settle")).toBe(settles + 1);
    expect((await recordOf(intent)).state).toBe("intent");

    harness.moveClock(3_600_000);
    const logged = () =>
      harness.messages.filter((message) => message.startsWith("payment unresolved")).length;
    const loggedBefore = logged();
    expect(await harness.withoutRpc.recheck(await recordOf(intent))).toEqual({ kind: "undecided" });
    expect(await recordOf(intent)).toMatchObject({ state: "unresolved", reason: expect.any(String) });
    await harness.withoutRpc.recheck(await recordOf(intent));
    expect(logged()).toBe(loggedBefore + 1);
    expect(harness.facilitator.count("/settle")).toBe(settles + 1);
    expect((await harness.store.totals()).calls.held).toBeGreaterThan(0);
  });

  it("An unresolved payment is decided once its token has an rpc_url", async () => {
    const { items } = await harness.store.listPayments({ state: "unresolved", limit: 1 });
    const [unresolved] = items;
    expect(await harness.withRpc.recheck(unresolved as PaymentRecord)).toMatchObject({
      kind: "accepted",
      callId: unresolved?.callId,
    });
    expect((await recordOf(unresolved as PaymentRecord)).state).toBe("settled");
  });
});

describe("Undecided payments older than a minute", () => {
  it("Refuse new ones before any charge: too_many_undecided, too_many_open_payments", async () => {
    harness.facilitator.add({ path: "/settle", fault: { kind: "cut" } });
    await harness.withoutRpc.settle((await newPayment()).intent, jobCall);
    harness.moveClock(61_000);
    const settles = harness.facilitator.count("/settle");
    const { intent } = await newPayment();
    for (const [maxUndecided, maxOpenPerPayer, code, status] of [
      [1, 256, "too_many_undecided", 503],
      [1_000, 1, "too_many_open_payments", 429],
    ] as const) {
      const limits = { maxUndecided, maxOpenPerPayer };
      await expect(harness.withoutRpc.settle(intent, jobCall, { limits })).rejects.toMatchObject({
        code,
        status,
      });
    }
    expect(harness.facilitator.count("/settle")).toBe(settles);
  });
});

describe("A payment that is decided already", () => {
  it("Failed by another replica during this replica's request: the answer is the journal's, and only the other replica logs it", async () => {
    const { intent, signed } = await newPayment();
    await harness.usdc.cancelAuthorization(accounts.payer, signed.authorization.nonce);
    const settlement = {
      success: false,
      errorReason: "settlement_failed",
      transaction: "",
      network: "eip155:1",
    };
    const when = (): boolean => {
      void harness.store.failPayment(intent.key, JSON.stringify(settlement), "decided by the other replica");
      return true;
    };
    harness.facilitator.add({ path: "/settle", when, times: 1, fault: { kind: "cut" } });
    const told = harness.messages.length;
    expect(await harness.withRpc.settle(intent, jobCall)).toEqual({ kind: "failed", settlement });
    expect(harness.messages.slice(told).filter((message) => message.startsWith("payment failed"))).toEqual(
      [],
    );
  });

  it("Settled or left unresolved by another replica at the same time: only the other replica logs it", async () => {
    const { intent } = await newPayment(20_000);
    const told = harness.messages.length;
    await harness.withRpc.settle(intent, jobCall);
    const record = await recordOf(intent);
    expect(await harness.withRpc.recheck(record)).toMatchObject({ kind: "accepted", callId: record.callId });
    const messages = harness.messages.slice(told);
    expect(messages.filter((message) => message === "payment settled")).toHaveLength(1);

    const { intent: unknown } = await newPayment(-60);
    harness.facilitator.add({ path: "/settle", times: 1, fault: { kind: "cut" } });
    await harness.withoutRpc.settle(unknown, jobCall);
    const undecided = await recordOf(unknown);
    await Promise.all([harness.withoutRpc.recheck(undecided), harness.withoutRpc.recheck(undecided)]);
    const unresolved = harness.messages
      .slice(told)
      .filter((message) => message.startsWith("payment unresolved"));
    expect(unresolved).toHaveLength(1);
  });

  it("Begins once: a repeat gets the same outcome, and another job or body is a replay", async () => {
    const { intent } = await newPayment(20_000);
    const first = await harness.withRpc.settle(intent, jobCall);
    expect(first.kind).toBe("accepted");
    const settles = harness.facilitator.count("/settle");
    expect(await harness.withRpc.settle(intent, jobCall)).toEqual({ ...first, replayed: true });
    for (const other of [{ bodyHash: "11".repeat(32) }, { jobIndex: 1 }, { fingerprint: "another" }]) {
      await expect(harness.withRpc.settle({ ...intent, ...other }, jobCall)).rejects.toMatchObject({
        code: "payment_replay",
      });
    }
    expect(harness.facilitator.count("/settle")).toBe(settles);
  });

  it("Fifty at once are settled once", async () => {
    const { intent } = await newPayment(20_000);
    const settles = harness.facilitator.count("/settle");
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, () => harness.withRpc.settle(intent, jobCall)),
    );
    expect(harness.facilitator.count("/settle")).toBe(settles + 1);
    expect(outcomes.filter(({ kind, replayed }) => kind === "accepted" && !replayed)).toHaveLength(1);
    expect(outcomes.filter(({ kind, replayed }) => kind === "undecided" && replayed)).toHaveLength(49);
  });
});
