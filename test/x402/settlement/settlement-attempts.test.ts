import { pino } from "pino";
import { expect, test } from "vitest";
import { monotonicClock } from "../../../src/core/clock.ts";
import type { Facilitators } from "../../../src/x402/facilitators/facilitators.ts";
import type { ChainEvidence } from "../../../src/x402/settlement/chain-evidence.ts";
import type { Evidence } from "../../../src/x402/settlement/payment-decision.ts";
import type { JournalledPayment } from "../../../src/x402/settlement/payment-outcome.ts";
import { SettlementAttempts } from "../../../src/x402/settlement/settlement-attempts.ts";

const UNUSED: Evidence = { kind: "open", reason: "unused", isUnused: true };
const PAID: Evidence = { kind: "paid", transaction: `0x${"ab".repeat(32)}` };

/** Attempts whose facilitators all refuse, on a chain that shows these findings, look by look. */
function attemptsOf(findings: readonly Evidence[]) {
  const asked: string[] = [];
  const looks = [...findings];
  const attempts = new SettlementAttempts({
    facilitators: {
      async settle(_request: unknown, name: string) {
        asked.push(name);
        return { kind: "refused", reason: "no" };
      },
      next: () => ["first", "second"].find((name) => !asked.includes(name)),
      noteSettlement: () => undefined,
    } as unknown as Facilitators,
    evidence: {
      secondLookAfterMs: 0,
      covers: () => true,
      isRequired: () => true,
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

test("A payment that the chain shows unused in two looks is settled at the next facilitator", async () => {
  const { attempts, asked } = attemptsOf([UNUSED, UNUSED, PAID]);
  expect(await attempts.settle(payment)).toMatchObject({ found: PAID });
  expect(asked).toEqual(["first", "second"]);
});

test("A payment that the chain shows between the two looks is asked of nobody else", async () => {
  const { attempts, asked } = attemptsOf([UNUSED, PAID]);
  expect(await attempts.settle(payment)).toMatchObject({ found: PAID });
  expect(asked).toEqual(["first"]);
});
