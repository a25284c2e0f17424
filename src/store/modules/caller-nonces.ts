import type { CallerNonce } from "../../core/payment.ts";
import type { NonceLedger } from "../contract/call-lookup.ts";
import type { PaymentJournal } from "../contract/payment-journal.ts";
import { type Lookup, parameters } from "../list-dialect.ts";
import type { StoreModule } from "../module.ts";
import { endedRows, keyIn, type Rows, type Table } from "../rows.ts";

interface CallerNonceRow {
  /** Lower case. */
  readonly caller: string;
  readonly service_id: string;
  readonly job_index: number;
  readonly nonce: string;
  readonly expires_at_secs: number;
  /** The payment that used the nonce; 0 for a sign-in. */
  readonly call_id: number;
}

const KEY = ["caller", "service_id", "job_index", "nonce"] as const;

const TABLE: Table<CallerNonceRow, (typeof KEY)[number]> = {
  name: "caller_nonces",
  key: KEY,
  columns: [...KEY, "expires_at_secs", "call_id"],
};

const EXPIRED = endedRows(TABLE.name, "expires_at_secs", 10);

/** Nonces of delegated callers, each used up by one payment or sign-in until it expires. */
export const CALLER_NONCES = {
  steps: {
    useCallerNonce: {
      keys: (nonce) => [keyIn(TABLE, keyOf(nonce))],
      run({ rows }, now, nonce) {
        if (nonce.expiresAt * 1000 <= now || isNonceUsed(rows, nonce, now)) return false;
        useNonce(rows, nonce, { callId: 0, now });
        return true;
      },
    },
  },
  lookups: {
    *isCallerNonceUsed({ dialect, now }, nonce): Lookup<boolean> {
      const { values, add } = parameters(dialect);
      const { caller, service_id, job_index, nonce: text } = keyOf(nonce);
      const sql = `SELECT 1 AS used FROM ${dialect.schema}caller_nonces
        WHERE caller = ${add(caller)} AND service_id = ${add(service_id)} AND job_index = ${add(job_index)}
          AND nonce = ${add(text)} AND expires_at_secs * 1000 > ${dialect.now(add(now()))}`;
      return (yield { name: "find_used_nonce", sql, values }).length > 0;
    },
  },
} satisfies StoreModule<PaymentJournal & NonceLedger>;

export function isNonceUsed(rows: Rows, nonce: CallerNonce, now: number): boolean {
  const known = rows.find(TABLE, keyOf(nonce));
  return known !== undefined && known.expires_at_secs * 1000 > now;
}

/** Remembers a nonce until it expires; an expired one is replaced. */
export function useNonce(
  rows: Rows,
  nonce: CallerNonce,
  { callId, now }: { readonly callId: number; readonly now: number },
): void {
  rows.forget(EXPIRED, Math.floor(now / 1000));
  rows.put(TABLE, { ...keyOf(nonce), expires_at_secs: nonce.expiresAt, call_id: callId });
}

function keyOf({ caller, serviceId, jobIndex, nonce }: CallerNonce) {
  return { caller: caller.toLowerCase(), service_id: String(serviceId), job_index: jobIndex, nonce };
}
