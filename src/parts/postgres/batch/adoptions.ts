import { toAdoptedPaymentRow } from "../../../store/adopted-payment-row.ts";
import { type Sql, statement, storable } from "../sql.ts";
import type { BatchContext, BatchPart, Entry } from "./batch.ts";

const ADOPT_PAYMENT = statement<{ call_id: number | null; added: boolean }>(
  "adopt_payment",
  `WITH known AS (
     SELECT call_id FROM jobgate.payments WHERE payer = $1 AND nonce = $2 AND network = $3 AND asset = $4),
   added AS (
     INSERT INTO jobgate.adopted_payments (payer, nonce, network, asset, adopted, adopted_at)
     SELECT $1, $2, $3, $4, $5, $6::bigint WHERE NOT EXISTS (SELECT FROM known) ON CONFLICT DO NOTHING RETURNING 1)
   SELECT (SELECT call_id FROM known) AS call_id, EXISTS (SELECT FROM added) AS added`,
);

/** Adopts payments, one by one: an operator does it by hand. */
export function adoptionsPart(entries: readonly Entry<"adoptPayment">[]): BatchPart {
  return {
    callIds: 0,
    load: () => Promise.resolve(),
    async write({ sql, now }: BatchContext) {
      for (const entry of entries) await adopt(sql, entry, now);
    },
  };
}

async function adopt(sql: Sql, { input: [payment], decide }: Entry<"adoptPayment">, now: number) {
  const { by, note } = payment;
  const row = toAdoptedPaymentRow({ ...payment, by: storable(by), note: storable(note) });
  const { payer, nonce, network, asset, adopted } = row;
  const [found] = await sql.run(ADOPT_PAYMENT, [payer, nonce, network, asset, adopted, now]);
  if (found?.call_id != null) decide({ kind: "payment_known", callId: found.call_id });
  else decide({ kind: "adopted", changed: found?.added === true });
}
