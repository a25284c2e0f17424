import type { CallerNonce } from "../../../core/payment.ts";
import type { Database } from "../driver.ts";

/** Expired nonces that are forgotten whenever one is remembered: more than one, so that they never pile up. */
const NONCES_FORGOTTEN_AT_ONCE = 10;

/** The nonces of delegated callers, each used up by one payment until it expires. */
export interface CallerNonces {
  isUsed(nonce: CallerNonce, now: number): boolean;
  /** Remembers it until it expires; one that has expired is written over. */
  use(nonce: CallerNonce, callId: number, now: number): void;
  /** Frees it, unless another payment has used it up since. */
  free(nonce: CallerNonce, callId: number): void;
}

export function prepareCallerNonces(database: Database): CallerNonces {
  const key = "caller = ? AND service_id = ? AND job_index = ? AND nonce = ?";
  const keyOf = (nonce: CallerNonce) => [nonce.caller, String(nonce.serviceId), nonce.jobIndex, nonce.nonce];
  const select = database.prepare(`SELECT 1 FROM caller_nonces WHERE ${key} AND expires_at_secs * 1000 > ?`);
  const upsert = database.prepare("INSERT OR REPLACE INTO caller_nonces VALUES (?, ?, ?, ?, ?, ?)");
  const remove = database.prepare(`DELETE FROM caller_nonces WHERE ${key} AND call_id = ?`);
  const forgetExpired = database.prepare(
    `DELETE FROM caller_nonces WHERE rowid IN
       (SELECT rowid FROM caller_nonces WHERE expires_at_secs <= ? LIMIT ${NONCES_FORGOTTEN_AT_ONCE})`,
  );
  return {
    isUsed: (nonce: CallerNonce, now: number) => select.get([...keyOf(nonce), now]) !== undefined,
    use(nonce: CallerNonce, callId: number, now: number): void {
      forgetExpired.run([Math.floor(now / 1000)]);
      upsert.run([...keyOf(nonce), nonce.expiresAt, callId]);
    },
    free: (nonce: CallerNonce, callId: number) => void remove.run([...keyOf(nonce), callId]),
  };
}
