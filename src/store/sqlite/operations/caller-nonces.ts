import type { CallerNonce } from "../../../core/payment.ts";
import type { Database, Statement } from "../driver.ts";

/** Expired nonces that are deleted whenever one is added: more than one, so that they never pile up. */
const NONCES_FORGOTTEN_AT_ONCE = 10;

/** Nonces of delegated callers, each used up by one payment until it expires. */
export class CallerNonces {
  readonly #select: Statement<unknown>;
  readonly #upsert: Statement<unknown>;
  readonly #forgetExpired: Statement<unknown>;

  constructor(database: Database) {
    const key = "caller = ? AND service_id = ? AND job_index = ? AND nonce = ?";
    this.#select = database.prepare(
      `SELECT 1 FROM caller_nonces WHERE ${key} AND expires_at_secs * 1000 > ?`,
    );
    this.#upsert = database.prepare("INSERT OR REPLACE INTO caller_nonces VALUES (?, ?, ?, ?, ?, ?)");
    this.#forgetExpired = database.prepare(
      `DELETE FROM caller_nonces WHERE rowid IN
         (SELECT rowid FROM caller_nonces WHERE expires_at_secs <= ? LIMIT ${NONCES_FORGOTTEN_AT_ONCE})`,
    );
  }

  isUsed(nonce: CallerNonce, now: number): boolean {
    return this.#select.get([...keyOf(nonce), now]) !== undefined;
  }

  /** Remembers a nonce until it expires; an expired entry is replaced. */
  use(nonce: CallerNonce, callId: number, now: number): void {
    this.#forgetExpired.run([Math.floor(now / 1000)]);
    this.#upsert.run([...keyOf(nonce), nonce.expiresAt, callId]);
  }
}

function keyOf({ caller, serviceId, jobIndex, nonce }: CallerNonce): (string | number)[] {
  return [caller, String(serviceId), jobIndex, nonce];
}
