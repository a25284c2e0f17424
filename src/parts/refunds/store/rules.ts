import type { GatewayEvent } from "../../../core/events.ts";
import type { TransferEnd } from "../../../core/payment.ts";
import type { Refund, RefundDecision } from "./ledger.ts";
import type { RefundRow } from "./row.ts";

/** Reason of a refund that waits for tokens. */
export const NO_FUNDS = "the refund account is short of tokens";

/** Beginning of the reason of a refund whose payment the chain does not show, or does not show yet. */
export const UNPROVEN = "the chain does not show its payment";

/** Returns true if a refund waits because the chain does not show its payment. Only the operator can waive that proof. */
export function isUnproven({
  state,
  reason,
}: {
  readonly state: string;
  readonly reason?: string | null | undefined;
}) {
  return state === "owed" && reason?.startsWith(UNPROVEN) === true;
}

/** Returns true if nothing shows any more what became of the transaction of a refund. Only the operator can say. */
export function isLost({
  state,
  reason,
}: {
  readonly state: string;
  readonly reason?: string | null | undefined;
}) {
  return state === "sending" && typeof reason === "string";
}

/** Checks whether a dead letter can be retried. A buyer who is paid back, or may be, would have the job and the money. */
export function canRetry(refund: Pick<RefundRow, "state"> | undefined): boolean {
  const { state = "cancelled" } = refund ?? {};
  return state === "owed" || state === "declined" || state === "cancelled";
}

/** @returns the refund that waits; undefined if it is not to be sent now */
export function held(
  row: RefundRow | undefined,
  reason: string,
  { forOperator }: { readonly forOperator: boolean },
  now: number,
): RefundRow | undefined {
  if (row?.state !== "owed" || row.is_approved === 0) return undefined;
  // The operator has waived the proof since the chain was queried.
  if (reason.startsWith(UNPROVEN) && hasWaivedProof(row)) return undefined;
  return { ...row, reason, is_approved: forOperator ? 0 : 1, updated_at: now };
}

/** @returns the refund that is being sent; undefined if it cannot be sent, or not in this attempt */
export function sent(
  row: RefundRow | undefined,
  { attempt, reference }: { readonly attempt: number; readonly reference: string },
  now: number,
): RefundRow | undefined {
  if (row?.state !== "owed" || row.is_approved === 0 || row.attempt !== attempt) return undefined;
  return { ...row, state: "sending", reference: reference.toLowerCase(), reason: null, updated_at: now };
}

/** State of a refund after each outcome of its transaction. */
const STATE_AFTER = { sent: "refunded", failed: "refund_failed", lost: "sending", unsigned: "owed" } as const;

/** @returns the refund after its transaction has ended; undefined if it is not being sent by that transaction */
export function ended(
  row: RefundRow | undefined,
  reference: string,
  end: TransferEnd,
  now: number,
): RefundRow | undefined {
  if (row?.state !== "sending" || row.reference !== reference.toLowerCase()) return undefined;
  const reason = end.state === "sent" ? null : (end.reason ?? NO_FUNDS);
  const hash = "transaction" in end ? (end.transaction ?? null) : null;
  const block_number = "blockNumber" in end ? end.blockNumber : null;
  return { ...row, state: STATE_AFTER[end.state], reason, hash, block_number, updated_at: now };
}

/**
 * Applies an operator's decision. A refund that is being sent can no longer be declined, and a failed refund is sent by a
 * new transaction, because the transaction before has certainly moved nothing.
 *
 * An approval waives the proof of the payment only where the refund waits for that proof, so that the operator has read
 * why. A refund that was declined needs the proof again when it is approved.
 *
 * The approval of a refund whose transaction is lost says that no block has that transaction. The refund goes on being sent, and
 * its sender signs another transaction in place of the lost one.
 * @returns undefined if its state does not allow it
 */
export function decided(
  row: RefundRow | undefined,
  decision: RefundDecision,
  now: number,
): RefundRow | undefined {
  const { state } = row ?? {};
  const isOpen =
    decision.as === "declined"
      ? state === "owed" || state === "refund_failed"
      : (state === "owed" && row?.is_approved === 0) ||
        state === "refund_failed" ||
        state === "declined" ||
        (row !== undefined && (isUnproven(row) || isLost(row)));
  if (row === undefined || !isOpen) return undefined;
  const waives =
    decision.as === "approved" &&
    (isUnproven(row) || ((state === "refund_failed" || isLost(row)) && hasWaivedProof(row)));
  const made = {
    ...decision,
    ...(waives ? { waivesProof: true } : {}),
    ...(isLost(row) ? { notMined: row.hash } : {}),
    at: now,
  };
  const noted = { decision: JSON.stringify(made), updated_at: now };
  if (decision.as === "declined") return { ...row, ...noted, state: "declined" };
  if (isLost(row)) return { ...row, ...noted, hash: null, reason: null };
  const attempt = row.attempt + (row.reference === null ? 0 : 1);
  const fresh = {
    state: "owed",
    is_approved: 1,
    reference: null,
    hash: null,
    block_number: null,
    reason: null,
  } as const;
  return { ...row, ...noted, ...fresh, attempt };
}

function hasWaivedProof({ decision }: Pick<RefundRow, "decision">): boolean {
  return decision !== null && (JSON.parse(decision) as Refund["decision"])?.waivesProof === true;
}

/** Returns the event of a refund as it is now. */
export function refundEvent(refund: Refund, at = refund.updatedAt): GatewayEvent {
  const { state, network, asset, symbol, payer, amount, decision, transaction = "", reason = "" } = refund;
  const isDecision = decision !== undefined && (state === "owed" || state === "declined");
  const texts = [isDecision ? `${decision.as} by ${decision.by}: ${decision.note}` : "", reason];
  const why = texts.filter((text) => text !== "").join("; ");
  const what = {
    kind: "partChanged",
    name: "refundChanged",
    state,
    network,
    asset,
    symbol,
    payer,
    amount,
  } as const;
  return { at, callId: refund.callId, what: { ...what, transaction, reason: why } };
}
