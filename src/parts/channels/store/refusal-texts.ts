import type { ChannelStatus } from "./row.ts";

/* Error codes of x402's scheme batch-settlement. Its clients compare two of them, and people read the other codes. */
const code = (name: string) => `invalid_batch_settlement_evm_${name}`;
const explained = (sentence: string, name: string) => `${sentence} (${code(name)})`;

/** Code for which clients sign again, from the sums in the answer. */
export const AMOUNT_MISMATCH = code("cumulative_amount_mismatch");
/** Code after which clients do not try again. */
export const NOTHING_TO_REFUND = code("refund_no_balance");
export const NOT_FOUND = explained(
  "This seller knows no such channel: send a deposit with the voucher",
  "channel_not_found",
);
export const BAD_SIGNATURE = explained(
  "The voucher is not signed by the payerAuthorizer of its channel, in the form that contracts take",
  "voucher_signature",
);
export const LOW_DEPOSIT = explained(
  "The deposit is lower than minDeposit of the offer",
  "deposit_below_min_deposit",
);
export const REFUND_WAITS = explained(
  "The channel cannot be paid back while a deposit is not decided, while it is stopped, or while calls go on and its payer withdraws: ask again later",
  "channel_busy",
);
/** Reasons why a channel takes no vouchers, by its status. */
export const BUSY: Readonly<Partial<Record<ChannelStatus, string>>> = {
  withdrawing: explained(
    "The channel takes no vouchers until the withdrawal that its payer has begun has ended. Nothing was charged",
    "channel_busy",
  ),
  stopped: explained(
    "The seller has stopped the channel, which takes no vouchers now. Nothing was charged: open another one, with another salt",
    "channel_busy",
  ),
};
