import { pino } from "pino";
import { expect, test } from "vitest";
import { monotonicClock } from "../../../src/core/clock.ts";
import type { PaymentRecord } from "../../../src/core/payment.ts";
import type { SettlementAnswer } from "../../../src/x402/facilitators/facilitator.ts";
import type { Facilitators } from "../../../src/x402/facilitators/facilitators.ts";
import type { ChainEvidence } from "../../../src/x402/settlement/chain-evidence.ts";
import type { Evidence } from "../../../src/x402/settlement/payment-decision.ts";
import type { JournalledPayment } from "../../../src/x402/settlement/payment-outcome.ts";
import { AskTimes, SettlementAttempts } from "../../../src/x402/settlement/settlement-attempts.ts";

const UNUSED: Evidence = { kind: "open", reason: "unused", isUnused: true };
const PAID: Evidence = { kind: "paid", transaction: `0x${"ab".repeat(32)}` };

/** Attempts whose facilitators all give one answer, on a chain that shows these findings, look by look. */
function attemptsOf(
  findings: readonly Evidence[],
  {
    answer = { kind: "refused", reason: "no" },
    isRequired = true,
  }: { answer?: SettlementAnswer; isRequired?: boolean } = {},
) {
  const asked: string[] = [];
  const looks = [...findings];
  const attempts = new SettlementAttempts({
    facilitators: {
      async settle(_request: unknown, name: string) {
        asked.push(name);
        return answer;
      },
      next: () => ["first", "second"].find((name) => !asked.includes(name)),
      noteSettlement: () => undefined,
    } as unknown as Facilitators,
    evidence: {
      secondLookAfterMs: 0,
      covers: () => true,
      isRequired: () => isRequired,
      isTransaction: () => true,
      look: async () => looks.shift() ?? UNUSED,
    } as unknown as ChainEvidence,
    confirmationTimeoutMs: 0,
    pendingLookMs: 60_000,
    elapsed: monotonicClock,
    logger: pino({ level: "silent" }),
  });
  return { attempts, asked };
}

const payment = { facilitator: "first", payload: "{}", requirements: "{}" } as JournalledPayment;

test("A payment that the chain shows unused in two observations is settled at the next facilitator", async () => {
  const { attempts, asked } = attemptsOf([UNUSED, UNUSED, PAID]);
  expect(await attempts.settle(payment)).toMatchObject({ found: PAID });
  expect(asked).toEqual(["first", "second"]);
});

test("A payment that the chain shows between the two observations is sent to no other facilitator", async () => {
  const { attempts, asked } = attemptsOf([UNUSED, PAID]);
  expect(await attempts.settle(payment)).toMatchObject({ found: PAID });
  expect(asked).toEqual(["first"]);
});

const transaction = `0x${"cd".repeat(32)}`;
const metered = {
  ...payment,
  key: { network: "eip155:8453", payer: "0x1" },
  amount: "6",
  charge: "used",
} as JournalledPayment;
const claimed = { kind: "success", transaction, network: "eip155:8453" } as SettlementAnswer;

test("A metered payment has the amount that the chain shows, also where the facilitator's word is enough", async () => {
  const shown: Evidence = { kind: "paid", transaction, amount: "4" };
  const { attempts } = attemptsOf([shown], { answer: claimed, isRequired: false });
  expect(await attempts.settle(metered)).toMatchObject({ found: shown });
});

test("A success that the chain does not show settles no metered payment, while the chain can be read", async () => {
  const { attempts } = attemptsOf([UNUSED, UNUSED, UNUSED], { answer: claimed, isRequired: false });
  expect(await attempts.settle(metered)).toMatchObject({ found: { kind: "open" } });
});

test("A metered payment is settled by the facilitator's word, where that is enough, while the RPC fails", async () => {
  const unread: Evidence = { kind: "open", reason: "the chain could not be asked", isUnread: true };
  const { attempts } = attemptsOf([unread], { answer: claimed, isRequired: false });
  expect((await attempts.settle(metered)).found).toEqual({ kind: "paid", transaction });
  const required = attemptsOf([unread], { answer: claimed });
  expect((await required.attempts.settle(metered)).found).toEqual(unread);
});

/** Times of a replica whose clocks start at 0. */
function replica({ isShared = true } = {}) {
  let now = 0;
  const clock = () => now;
  const times = new AskTimes({ journal: { isShared }, clock, elapsed: clock });
  const mayAskAt = (ms: number, record: PaymentRecord) => {
    now = ms;
    return times.mayAskAgain(record);
  };
  return { times, mayAskAt };
}

const begun = { fingerprint: "one", createdAt: 0, validBefore: 60 } as PaymentRecord;

test("A payment that another replica began, or this one before a restart, may be settled again 5 s later", () => {
  const { mayAskAt } = replica();
  expect([mayAskAt(4_999, begun), mayAskAt(5_000, begun)]).toEqual([false, true]);
});

test("Without other replicas, a payment that was begun before a restart may be settled again at once", () => {
  expect(replica({ isShared: false }).mayAskAt(0, begun)).toBe(true);
});

test("A payment is settled again at most once in 5 s, and never with less than 6 s left", () => {
  const { times, mayAskAt } = replica();
  expect(mayAskAt(10_000, begun)).toBe(true);
  times.note(begun);
  expect([mayAskAt(14_999, begun), mayAskAt(15_000, begun)]).toEqual([false, true]);
  expect([mayAskAt(54_000, begun), mayAskAt(54_001, begun)]).toEqual([true, false]);
});
