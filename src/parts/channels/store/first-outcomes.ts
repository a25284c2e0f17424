import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { Commit, StoreModule } from "../../../store/module.ts";
import { keyIn, type Rows } from "../../../store/rows.ts";
import type { ChannelLedger, VoucherPayment } from "./ledger.ts";
import { writeChannel } from "./operator-steps.ts";
import { type ChannelRefund, refundOf } from "./refund-rules.ts";
import { type ChannelRow, REFUNDS_TABLE, type RefundRow } from "./row.ts";

/* First outcomes of requests that payers may repeat. */

/** Returns the keys of the row of a refund. @param request undefined for a refund by the operator, which has no row */
export const refundKeys = (channel_id: string, request: string | undefined) =>
  request === undefined ? [] : [keyIn(REFUNDS_TABLE, { channel_id, request })];

export function findRefund(
  rows: Pick<Rows, "find">,
  channelId: string,
  request: string,
): ChannelRefund | undefined {
  const row = rows.find(REFUNDS_TABLE, { channel_id: channelId, request });
  return row && refundOf(row);
}

/** Writes a channel that is paid back, and its refund if this is the refund of the request. */
export function writeRefund(commit: Commit, row: ChannelRow, request: string | undefined): void {
  writeChannel(commit, row);
  const { channel_id, refund } = row;
  if (request === undefined || refund === null || refundOf(row)?.request !== request) return;
  commit.rows.put(REFUNDS_TABLE, { channel_id, request, refund });
}

export const FIRST_OUTCOMES = {
  *findPaymentOfDeposit({ dialect }, channelId, cumulative): Lookup<VoucherPayment | undefined> {
    const { values, add } = parameters(dialect);
    const sql = `SELECT nonce, fingerprint, payload
      FROM ${dialect.schema}channel_deposits JOIN ${dialect.schema}payments USING (call_id)
      WHERE channel_id = ${add(channelId)} AND cumulative = ${add(cumulative)}`;
    const [row] = yield { name: "find_payment_of_deposit", sql, values };
    return row as VoucherPayment | undefined;
  },

  *findPaymentsOfVoucher({ dialect }, channelId, cumulative): Lookup<readonly VoucherPayment[]> {
    const { values, add } = parameters(dialect);
    const sql = `SELECT nonce, fingerprint, payload
      FROM ${dialect.schema}channel_charges AS charge${dialect.indexedBy("channel_charges_by_voucher")}
        JOIN ${dialect.schema}payments USING (call_id)
      WHERE channel_id = ${add(channelId)} AND cumulative = ${add(cumulative)} AND charge.state <> 'returned'`;
    return (yield { name: "find_payments_of_voucher", sql, values }) as readonly VoucherPayment[];
  },

  *findChannelRefund({ dialect }, channelId, request): Lookup<ChannelRefund | undefined> {
    const { values, add } = parameters(dialect);
    const sql = `SELECT refund FROM ${dialect.schema}channel_refunds
      WHERE channel_id = ${add(channelId)} AND request = ${add(request)}`;
    const [row] = yield { name: "find_channel_refund", sql, values };
    return row === undefined ? undefined : refundOf(row as Pick<RefundRow, "refund">);
  },
} satisfies StoreModule<
  Pick<ChannelLedger, "findPaymentOfDeposit" | "findPaymentsOfVoucher" | "findChannelRefund">
>["lookups"];
