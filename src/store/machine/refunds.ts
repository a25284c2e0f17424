import { paymentOf, type Reactions } from "./changes.ts";

/** Refunds are owed for dead letters, and no longer once a dead letter is retried. */
export const REFUNDS: Reactions = {
  deadLettered({ call, at }, known) {
    const payment = paymentOf(call, known);
    if (payment === undefined || payment.on_failure === "keep") return [];
    const { call_id, network, asset, symbol, payer, amount } = payment;
    const before = known.refund(call_id);
    if (before !== undefined && before.state !== "cancelled") return [];
    // A payment that the operator closed as paid is not proven, so its refund needs the operator's approval.
    const isApproved = payment.on_failure === "refund" && payment.closed === null;
    // A transaction of the refund before may still be known by its number.
    const attempt = before === undefined ? 1 : before.attempt + (before.reference === null ? 0 : 1);
    const money = { call_id, network, asset, symbol, payer, amount };
    const nothingSent = { reference: null, hash: null, block_number: null, reason: null, decision: null };
    const owed = {
      state: "owed",
      is_approved: isApproved ? 1 : 0,
      attempt,
      created_at: at,
      updated_at: at,
    } as const;
    return [{ kind: "refund", from: before?.state, row: { ...money, ...nothingSent, ...owed } }];
  },

  revived({ callId }, known) {
    const refund = known.refund(callId);
    if (refund === undefined || refund.state === "cancelled") return [];
    return [{ kind: "refund", from: refund.state, row: { ...refund, state: "cancelled" } }];
  },
};
