import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { StoreModule } from "../../../store/module.ts";
import type { ChannelLedger, DepositPayment } from "./ledger.ts";
import { type ChannelRefund, refundOf } from "./refund-rules.ts";
import type { RefundRow } from "./row.ts";

/** Lookups of what repeated requests have done before. */
export const FIRST_OUTCOMES = {
  *findPaymentOfDeposit({ dialect }, channelId, cumulative): Lookup<DepositPayment | undefined> {
    const { values, add } = parameters(dialect);
    const sql = `SELECT nonce, fingerprint, payload
      FROM ${dialect.schema}channel_deposits JOIN ${dialect.schema}payments USING (call_id)
      WHERE channel_id = ${add(channelId)} AND cumulative = ${add(cumulative)}`;
    const [row] = yield { name: "find_payment_of_deposit", sql, values };
    return row as DepositPayment | undefined;
  },

  *findChannelRefund({ dialect }, channelId, request): Lookup<ChannelRefund | undefined> {
    const { values, add } = parameters(dialect);
    const sql = `SELECT refund FROM ${dialect.schema}channel_refunds
      WHERE channel_id = ${add(channelId)} AND request = ${add(request)}`;
    const [row] = yield { name: "find_channel_refund", sql, values };
    return row === undefined ? undefined : refundOf(row as Pick<RefundRow, "refund">);
  },
} satisfies StoreModule<Pick<ChannelLedger, "findPaymentOfDeposit" | "findChannelRefund">>["lookups"];
