import { type Announcement, callEnded, callOf } from "../../../store/machine/announcements.ts";
import type { Known } from "../../../store/machine/changes.ts";
import type { RefundRow } from "./row.ts";

/**
 * - `refund.owed`: a paid call became a dead letter, and its buyer is owed money.
 * - `refund.sent`, `refund.failed`: the refund's state became `refunded` or `refund_failed`. Buyers also get these
 * events.
 *
 * A call that was refunded has ended once more.
 */
export const ANNOUNCED = ["refund.owed", "refund.sent", "refund.failed"];

/** Announces that the state of a refund became another one. */
export function announcementsOf(
  refund: RefundRow,
  before: RefundRow | undefined,
  known: Pick<Known, "payment">,
): Announcement[] {
  const { state, updated_at: at, call_id } = refund;
  const money = moneyOf(refund);
  if (state === "owed" && (before === undefined || before.state === "cancelled")) {
    const data = () => ({ call_id, ...money, waits_for_approval: refund.is_approved === 0 });
    return [{ event: "refund.owed", at, data }];
  }
  if (state !== "refunded" && state !== "refund_failed") return [];
  const payment = known.payment(call_id);
  if (payment === undefined) return [];
  const transaction = refund.hash ?? undefined;
  const reason = refund.reason ?? undefined;
  const data = () => ({ call_id, origin: "x402", ...money, transaction, reason });
  if (state === "refunded")
    return [
      callEnded(callOf(payment), "refunded", at),
      { event: "refund.sent", at, data, boughtCall: call_id },
    ];
  // A buyer does not see why a refund failed, because only the operator can do something about it.
  const forBuyer = (all: object) => ({ ...all, reason: undefined });
  return [{ event: "refund.failed", at, data, boughtCall: call_id, forBuyer }];
}

function moneyOf({ network, asset, symbol, amount, payer }: RefundRow) {
  return { network, asset, symbol, amount, payer };
}
