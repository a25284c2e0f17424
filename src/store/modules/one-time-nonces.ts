import type { OneTimeNonce } from "../../core/payment.ts";
import type { NonceLedger } from "../contract/call-lookup.ts";
import type { PaymentJournal } from "../contract/payment-journal.ts";
import { type Lookup, parameters } from "../list-dialect.ts";
import type { StoreModule } from "../module.ts";
import { endedRows, keyIn, type Rows, type Table } from "../rows.ts";

interface NonceRow {
  readonly key: string;
  readonly expires_at_secs: number;
  /** The payment that used the nonce; 0 if it was used alone. */
  readonly call_id: number;
}

const TABLE: Table<NonceRow, "key"> = {
  name: "one_time_nonces",
  key: ["key"],
  columns: ["key", "expires_at_secs", "call_id"],
};

/** Returns the key of a nonce's row. */
export const nonceKey = (key: string) => keyIn(TABLE, { key });

const EXPIRED = endedRows(TABLE.name, "expires_at_secs", 10);

/** Nonces that are used once, with a payment or alone, and are kept until they expire. */
export const ONE_TIME_NONCES = {
  steps: {
    useNonce: {
      keys: ({ key }) => [nonceKey(key)],
      run({ rows }, now, nonce) {
        if (nonce.expiresAt * 1000 <= now || isNonceUsed(rows, nonce, now)) return false;
        useNonce(rows, nonce, { callId: 0, now });
        return true;
      },
    },
  },
  lookups: {
    *isNonceUsed({ dialect, now }, { key }): Lookup<boolean> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT 1 AS used FROM ${dialect.schema}one_time_nonces
        WHERE key = ${add(key)} AND expires_at_secs * 1000 > ${dialect.now(add(now()))}`;
      return (yield { name: "find_used_nonce", sql, values }).length > 0;
    },
  },
} satisfies StoreModule<PaymentJournal & NonceLedger>;

export function isNonceUsed(rows: Rows, { key }: OneTimeNonce, now: number): boolean {
  const known = rows.find(TABLE, { key });
  return known !== undefined && known.expires_at_secs * 1000 > now;
}

/** Remembers a nonce until it expires, and replaces an expired nonce. */
export function useNonce(
  rows: Rows,
  { key, expiresAt }: OneTimeNonce,
  { callId, now }: { readonly callId: number; readonly now: number },
): void {
  rows.forget(EXPIRED, Math.floor(now / 1000));
  rows.put(TABLE, { key, expires_at_secs: expiresAt, call_id: callId });
}
