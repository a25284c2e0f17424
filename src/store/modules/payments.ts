import { oneSpelling, type PaymentRecord } from "../../core/payment.ts";
import { type EndingAuthorization, LOSS_MS, type PaymentJournal } from "../contract/payment-journal.ts";
import { type Lookup, parameters } from "../list-dialect.ts";
import type { StoreModule } from "../module.ts";
import { PAYMENT_COLUMNS, type PaymentRow, toPaymentRecord } from "../payment-row.ts";
import { HOLDS_NAME } from "../rules/payments.ts";

/** Every column is named, because `*` breaks the query plans of running replicas when a newer replica adds a column. */
const COLUMN_LIST = PAYMENT_COLUMNS.map((column) => `payments.${column}`).join(", ");

/** Payments of the journal. Keys are compared in one spelling. */
export const PAYMENTS = {
  lookups: {
    *findPayment({ dialect }, { network, asset, payer, nonce }): Lookup<PaymentRecord | undefined> {
      const { values, add } = parameters(dialect);
      const equals = (value: string) => `= ${add(oneSpelling(value))}`;
      const sql = `SELECT ${COLUMN_LIST} FROM ${dialect.schema}payments
        WHERE network ${equals(network)} AND asset ${equals(asset)} AND payer ${equals(payer)} AND nonce ${equals(nonce)}`;
      return toRecord(yield { name: "find_payment", sql, values });
    },

    *findPaymentByFingerprint({ dialect }, fingerprint): Lookup<PaymentRecord | undefined> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT ${COLUMN_LIST} FROM ${dialect.schema}payments WHERE fingerprint = ${add(fingerprint)}`;
      return toRecord(yield { name: "find_payment_by_fingerprint", sql, values });
    },

    *findPaymentByPurchaseName({ dialect }, { payer, name }): Lookup<PaymentRecord | undefined> {
      const { values, add } = parameters(dialect);
      const table = `${dialect.schema}payments${dialect.indexedBy("payments_by_purchase_name")}`;
      const sql = `SELECT ${COLUMN_LIST} FROM ${table}
        WHERE payer = ${add(oneSpelling(payer))} AND purchase_name = ${add(name)} AND ${HOLDS_NAME}`;
      return toRecord(yield { name: "find_payment_by_purchase_name", sql, values });
    },

    *hasLoss({ dialect, now }, payer): Lookup<boolean> {
      const { values, add } = parameters(dialect);
      const table = `${dialect.schema}payments${dialect.indexedBy("payments_lost")}`;
      const sql = `SELECT 1 AS found FROM ${table} WHERE state = 'failed' AND charge <> 'before'
          AND payer = ${add(oneSpelling(payer))} AND updated_at > ${dialect.now(add(now()))} - ${LOSS_MS} LIMIT 1`;
      return ((yield { name: "has_loss", sql, values }) as unknown[]).length > 0;
    },

    *listUndecided(
      { dialect, now },
      { state, limit, after = 0 },
    ): Lookup<(PaymentRecord & { readonly ageMs: number })[]> {
      const { values, add } = parameters(dialect);
      const { schema } = dialect;
      const isWatched = state === "watched" || state === "early";
      const tables = isWatched
        ? `${schema}watched_payments JOIN ${schema}payments USING (call_id)`
        : `${schema}payments`;
      const conditions = isWatched
        ? `${state === "early" ? "" : "NOT "}is_early AND watched_payments.call_id > ${add(after)}`
        : `state = ${add(state)} AND payments.call_id > ${add(after)}`;
      const sql = `SELECT ${COLUMN_LIST}, ${dialect.now(add(now()))} - payments.created_at AS age_ms FROM ${tables}
        WHERE ${conditions} ORDER BY ${isWatched ? "watched_payments" : "payments"}.call_id LIMIT ${add(limit)}`;
      const name = isWatched ? `list_${state}` : "list_undecided";
      const rows = (yield { name, sql, values }) as (PaymentRow & { readonly age_ms: number })[];
      return rows.map((row) => ({ ...toPaymentRecord(row), ageMs: row.age_ms }));
    },

    *listEndingAuthorizations({ dialect }, beforeSecs, limit): Lookup<EndingAuthorization[]> {
      const { values, add } = parameters(dialect);
      const table = `${dialect.schema}payments${dialect.indexedBy("payments_authorized")}`;
      const sql = `SELECT call_id, transfer_method, valid_before_secs FROM ${table}
        WHERE state = 'authorized' AND valid_before_secs < ${add(beforeSecs)} ORDER BY valid_before_secs LIMIT ${add(limit)}`;
      const rows = (yield { name: "list_ending_authorizations", sql, values }) as Pick<
        PaymentRow,
        "call_id" | "transfer_method" | "valid_before_secs"
      >[];
      return rows.map(({ call_id, transfer_method, valid_before_secs }) => ({
        callId: call_id,
        transferMethod: transfer_method,
        validBefore: valid_before_secs,
      }));
    },
  },
} satisfies StoreModule<PaymentJournal>;

function toRecord([row]: readonly unknown[]): PaymentRecord | undefined {
  return row === undefined ? undefined : toPaymentRecord(row as PaymentRow);
}
