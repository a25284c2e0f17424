import type { PaymentIntent } from "../../../core/payment.ts";
import { hasFailed } from "../../../core/result-answer.ts";
import type { EndedCall } from "../../../store/machine/announcements.ts";
import {
  count,
  type Effect,
  type Known,
  paymentOf,
  put,
  type Reactions,
} from "../../../store/machine/changes.ts";
import {
  CHANNEL_METHOD,
  CHANNELS_TABLE,
  CHARGES_TABLE,
  type ChargeRow,
  DEPOSITS_TABLE,
  findChannel,
  findCharge,
} from "./row.ts";
import { decided, failed, revived, succeeded, taken, unusedOf } from "./rules.ts";
import { SUMS_TABLE, sumsOfChange } from "./totals.ts";
import { voucherOf } from "./voucher.ts";

/** Changes of channels and charges when payments begin and when calls end. */
export const REACTIONS: Reactions = {
  paymentBegun: ({ payment, intent, at }, known) => begun(payment.call_id, intent, at, known),
  finished({ call, charge, status, at }, known) {
    if (call.origin !== "x402") return [];
    return hasFailed(status) ? failureOf(call, known) : successOf(call, charge ?? undefined, at, known);
  },
  deadLettered: ({ call }, known) => failureOf(call, known),
  returnDecided: ({ callId, isReturned }, known) =>
    changed(callId, known, (charge) => decided(charge, isReturned)),
  revived: ({ callId }, known) => changed(callId, known, revived),
};

function begun(callId: number, intent: PaymentIntent, at: number, { rows }: Known): Effect[] {
  if (intent.transferMethod !== CHANNEL_METHOD) return [];
  const voucher = voucherOf(intent);
  const { channelId: channel_id, amount, deposit } = voucher;
  const charge: ChargeRow = {
    call_id: callId,
    channel_id,
    cumulative: String(voucher.cumulative),
    amount: String(amount),
    used: String(amount),
    deposit: String(deposit),
    on_failure: intent.onFailure ?? "keep",
    charges_back: intent.chargesBack === true ? 1 : 0,
    state: deposit > 0n ? "undecided" : "open",
    is_counted: 0,
    created_at: at,
  };
  const before = findChannel(rows, channel_id);
  const row = taken(before, voucher, callId, at);
  const { cumulative } = charge;
  return [
    put(CHANNELS_TABLE, row),
    put(CHARGES_TABLE, charge),
    ...(deposit > 0n ? [put(DEPOSITS_TABLE, { channel_id, cumulative, call_id: callId })] : []),
    count(SUMS_TABLE, sumsOfChange(before, row)),
  ];
}

function failureOf(call: EndedCall, known: Known): Effect[] {
  const payment = paymentOf(call, known);
  return payment === undefined
    ? []
    : changed(call.call_id, known, (charge) => failed(charge, payment.on_failure));
}

/** @param used token units that the call has used; undefined for the whole charge */
function successOf(call: EndedCall, used: string | undefined, at: number, known: Known): Effect[] {
  const charge = findCharge(known.rows, call.call_id);
  const payment = charge && used !== undefined ? paymentOf(call, known) : undefined;
  const amount = charge && used !== undefined ? unusedOf(charge, used) : 0n;
  // The charge was claimed before its call ended, because its payer withdraws.
  if (payment !== undefined && amount > 0n)
    return [{ kind: "change", change: { kind: "owed", payment, amount: String(amount), at } }];
  return changed(call.call_id, known, (one) => succeeded(one, used));
}

function changed(
  callId: number,
  { rows }: Pick<Known, "rows">,
  change: (charge: ChargeRow) => ChargeRow | undefined,
): Effect[] {
  const charge = findCharge(rows, callId);
  const next = charge && change(charge);
  return next === undefined ? [] : [put(CHARGES_TABLE, next)];
}
