import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { amountText } from "../../core/amounts.ts";
import type { DecimalsOf } from "../../operator/messages.ts";
import type { ChannelConfig } from "./hashes.ts";
import { CHANNEL_STATES, CHARGE_STATES } from "./operator-states.ts";
import { refundOf } from "./store/refund-rules.ts";
import type { ChannelRow, ChargeRow, DecisionRow } from "./store/row.ts";
import { dueOf } from "./store/rules.ts";
import type { ChannelSum } from "./store/totals.ts";

/** Makes the message of a channel. @param keyMissing true if the configuration has no key that signs its claims */
export function toChannel(row: ChannelRow, decimalsOf: DecimalsOf, keyMissing: boolean) {
  const { channel_id: id, network, asset, symbol, reason, due_since, withdraw_at } = row;
  const { payer, receiver: payTo, receiverAuthorizer: authorizer } = JSON.parse(row.config) as ChannelConfig;
  const text = (amount: string) => amountText(amount, symbol, decimalsOf(row));
  const unclaimed = String(dueOf(row));
  const refund = refundOf(row);
  return {
    ...{ id, network, asset, symbol, payer, payTo, authorizer, keyMissing, unclaimed },
    state: CHANNEL_STATES[row.status],
    reason: reason ?? "",
    ...{
      deposited: row.balance,
      charged: row.charged,
      final: row.final,
      claimed: row.claimed,
      lost: row.lost,
    },
    depositedText: depositedText(row, text),
    chargedText: text(row.charged),
    finalText: text(row.final),
    claimedText: text(row.claimed),
    lostText: text(row.lost),
    unclaimedText: text(unclaimed),
    ...(due_since !== null && { dueSince: timestampFromMs(due_since) }),
    ...(withdraw_at !== null && { withdrawRequestedAt: timestampFromMs(withdraw_at * 1_000) }),
    ...(refund !== undefined && {
      refund: {
        amount: refund.amount,
        amountText: text(refund.amount),
        sending: refund.state === "sending",
        transaction: refund.transaction ?? "",
      },
    }),
    createdAt: timestampFromMs(row.created_at),
    updatedAt: timestampFromMs(row.updated_at),
  };
}

/** Returns the deposits as text. Calls are charged before their deposit is in the balance. */
function depositedText({ balance, deposits }: ChannelRow, text: (amount: string) => string): string {
  if (deposits === 0) return text(balance);
  return balance === "0" ? "under way" : `${text(balance)}, more under way`;
}

/** Makes the message of a charge in a channel. */
export function toCharge(
  { call_id, state, amount, created_at }: ChargeRow,
  channel: ChannelRow,
  decimalsOf: DecimalsOf,
) {
  return {
    callId: BigInt(call_id),
    state: CHARGE_STATES[state],
    amount,
    amountText: amountText(amount, channel.symbol, decimalsOf(channel)),
    createdAt: timestampFromMs(created_at),
  };
}

export function toDecision({ action, by_name: by, note, at }: DecisionRow) {
  return { action, by, note, at: timestampFromMs(at) };
}

/** Makes the message of the channels of a token. */
export function toChannelSum(sum: ChannelSum, decimalsOf: DecimalsOf) {
  const { network, asset, symbol, unclaimed, oldestDueAt } = sum;
  return {
    ...{ network, asset, symbol, unclaimed: String(unclaimed) },
    unclaimedText: amountText(unclaimed, symbol, decimalsOf(sum)),
    ...(oldestDueAt !== undefined && { oldestAt: timestampFromMs(oldestDueAt) }),
  };
}
