import { inspect } from "node:util";
import { expect } from "vitest";
import type { PaymentState } from "../../src/core/payment.ts";
import { isBalanced } from "../../src/store/rules/payments.ts";
import { accounts } from "../helpers/accounts.ts";
import { until } from "../helpers/until.ts";
import type { Token } from "../helpers/usdc.ts";
import type { PaidGateway } from "./paid-gateway.ts";
import { AMOUNT, type PaidParts } from "./paid-parts.ts";

/** Payments and jobs that one test caused. */
export interface Changes {
  /** Requests that jobgate made of its facilitator. */
  readonly verifyCalls: number;
  readonly settleCalls: number;
  /** Token units that the recipient got. */
  readonly received: bigint;
  /** JobCalls that the runner got. */
  readonly jobs: number;
  /** Payments in the journal, by state. */
  readonly payments: Readonly<Partial<Record<PaymentState, number>>>;
}

interface Ledger extends Required<Changes> {
  readonly payments: Readonly<Record<PaymentState, number>>;
}

const NOTHING: Changes = { verifyCalls: 0, settleCalls: 0, received: 0n, jobs: 0, payments: {} };

/** So many payments settled, and their jobs at the runner. */
export const paidJobs = (count: number): Changes => ({
  verifyCalls: count,
  settleCalls: count,
  received: AMOUNT * BigInt(count),
  jobs: count,
  payments: { settled: count },
});
export const ONE_PAID_JOB = paidJobs(1);

/**
 * Starts to record. The returned function asserts that exactly this changed since, and that the journal balances.
 */
export async function watchLedger(
  parts: PaidParts,
  gateway: PaidGateway,
  token: Pick<Token, "balanceOf"> = parts.usdc,
): Promise<(expected: Partial<Changes>) => Promise<void>> {
  const before = await readLedger(gateway, token);
  return async (expected) => {
    await jobsDelivered(gateway, before.jobs + (expected.jobs ?? 0));
    const after = await readLedger(gateway, token);
    const payments = Object.fromEntries(
      Object.entries(after.payments)
        .map(([state, count]) => [state, count - before.payments[state as PaymentState]] as const)
        .filter(([, count]) => count !== 0),
    );
    expect({
      verifyCalls: after.verifyCalls - before.verifyCalls,
      settleCalls: after.settleCalls - before.settleCalls,
      received: after.received - before.received,
      jobs: after.jobs - before.jobs,
      payments,
    }).toEqual({ ...NOTHING, ...expected });
    await expectBalance(gateway);
  };
}

/**
 * Every payment that is settled or metered is a JobCall that waits, runs, ran or failed; every other undecided one holds
 * its JobCall back.
 */
export async function expectBalance({ journal }: Pick<PaidGateway, "journal">): Promise<void> {
  const totals = await journal.totals();
  const { payments, deferred, paidCalls, calls } = totals;
  const { ready, leased, done, dead } = paidCalls;
  const used = Object.values(deferred).reduce((sum, count) => sum + count, 0);
  expect(
    { sold: ready + leased + done + dead, held: calls.held, isBalanced: isBalanced(totals) },
    inspect(totals),
  ).toEqual({
    sold: payments.settled - deferred.settled + used,
    held: payments.intent + payments.unresolved - deferred.unresolved,
    isBalanced: true,
  });
}

/** A 202 comes as soon as the job is durable, which may be before the runner has it. */
async function jobsDelivered(gateway: PaidGateway, count: number): Promise<void> {
  // The ledger shows which jobs are missing.
  await until(() => gateway.delivered.length >= count).catch(() => undefined);
}

async function readLedger(gateway: PaidGateway, token: Pick<Token, "balanceOf">): Promise<Ledger> {
  return {
    verifyCalls: gateway.facilitatorProxy.count("/verify"),
    settleCalls: gateway.facilitatorProxy.count("/settle"),
    received: await token.balanceOf(accounts.payTo.address),
    jobs: gateway.delivered.length,
    payments: (await gateway.journal.totals()).payments,
  };
}
