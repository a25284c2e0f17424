import type { BuriedCall, DecidedCharge } from "../../../store/contract/work-queue.ts";
import { chargedState } from "../../../store/rules/charges.ts";
import { numberArray, type Sql, statement } from "../sql.ts";
import type { BatchContext } from "./batch.ts";

/** Open payment of a JobCall that is paid by use. */
export type AuthorizedPayment = Omit<DecidedCharge, "state" | "amount">;

/** SQL of a JobCall's {@link AuthorizedPayment}; null if it has none. */
export const AUTHORIZED = `CASE WHEN ceiling IS NOT NULL THEN (
  SELECT json_build_object('network', network, 'asset', asset, 'symbol', symbol, 'payer', payer) FROM jobgate.payments
   WHERE payments.call_id = job_calls.call_id AND payments.state = 'authorized') END`;

const STILL_AUTHORIZED = statement<{ readonly call_id: number }>(
  "still_authorized",
  "SELECT call_id FROM jobgate.payments WHERE call_id = ANY ($1::bigint[]) AND state = 'authorized'",
);
const CHARGE_PAYMENTS = statement(
  "charge_payments",
  `UPDATE jobgate.payments SET state = new ->> 1, amount = new ->> 2, updated_at = $2
     FROM json_array_elements($1::json) AS new
    WHERE call_id = (new ->> 0)::bigint AND state = 'authorized'`,
);
const FIND_RELEASED = statement<AuthorizedPayment & { readonly call_id: number }>(
  "find_released",
  `SELECT call_id, network, asset, symbol, payer FROM jobgate.payments
    WHERE call_id = ANY ($1::bigint[]) AND state = 'released' AND updated_at = $2`,
);

/**
 * Finds those of locked JobCalls whose payment is still open. The statement that waited for the lock has read payments as
 * they were before it waited.
 */
export async function stillAuthorized(sql: Sql, callIds: readonly number[]): Promise<ReadonlySet<number>> {
  if (callIds.length === 0) return new Set();
  const rows = await sql.run(STILL_AUTHORIZED, [numberArray(callIds)]);
  return new Set(rows.map(({ call_id }) => call_id));
}

/** Decides what a JobCall is charged. @returns undefined unless its payment is open, by use */
export function decidedCharge(
  { authorized }: { readonly authorized: AuthorizedPayment | null },
  amount: string,
): DecidedCharge | undefined {
  return authorized === null ? undefined : { ...authorized, state: chargedState(amount), amount };
}

/** @param charged amounts by call ID */
export async function chargePayments(
  { sql, now }: BatchContext,
  charged: ReadonlyMap<number, string>,
): Promise<void> {
  if (charged.size === 0) return;
  const rows = [...charged].map(([callId, amount]) => [callId, chargedState(amount), amount]);
  await sql.run(CHARGE_PAYMENTS, [JSON.stringify(rows), now]);
}

/** Returns a function that adds the payment that was released with one of these new dead letters. */
export async function releasedWith(
  sql: Sql,
  now: number,
  buried: readonly BuriedCall[],
): Promise<(call: BuriedCall) => BuriedCall> {
  if (buried.length === 0) return (call) => call;
  const rows = await sql.run(FIND_RELEASED, [numberArray(buried.map(({ callId }) => callId)), now]);
  const released = new Map(
    rows.map(({ call_id, ...payment }) => [call_id, { ...payment, state: "released", amount: "0" } as const]),
  );
  return (call) => {
    const payment = released.get(call.callId);
    return payment === undefined ? call : { ...call, released: payment };
  };
}
