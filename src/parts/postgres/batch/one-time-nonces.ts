import type { OneTimeNonce } from "../../../core/payment.ts";
import { LostRace } from "../connection/database-errors.ts";
import { type Sql, statement } from "../sql.ts";

/**
 * Expired nonces that are deleted whenever a nonce is added. The number is above 1, so that expired nonces never pile
 * up.
 */
const NONCES_FORGOTTEN_AT_ONCE = 10;

interface NonceRow {
  key: string;
  expires_at_secs: number;
  call_id: number;
}

const SELECT = statement<NonceRow>(
  "select_one_time_nonces",
  "SELECT key, expires_at_secs, call_id FROM jobgate.one_time_nonces WHERE key = ANY ($1::text[])",
);
const FREE = statement(
  "free_one_time_nonces",
  `DELETE FROM jobgate.one_time_nonces AS used
    USING json_populate_recordset(NULL::jobgate.one_time_nonces, $1::json) AS free
    WHERE (used.key, used.call_id) = (free.key, free.call_id)`,
);
const FORGET_EXPIRED = statement(
  "forget_one_time_nonces",
  `DELETE FROM jobgate.one_time_nonces WHERE ctid = ANY (ARRAY (
     SELECT ctid FROM jobgate.one_time_nonces WHERE expires_at_secs <= $1
      LIMIT $2 * ${NONCES_FORGOTTEN_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
);
// An expired entry is replaced.
const TAKE = `
  INSERT INTO jobgate.one_time_nonces AS used
  SELECT * FROM json_populate_recordset(NULL::jobgate.one_time_nonces, $1::json)
   ORDER BY key
  ON CONFLICT (key)
  DO UPDATE SET expires_at_secs = excluded.expires_at_secs, call_id = excluded.call_id
      WHERE used.expires_at_secs * 1000 <= $2`;
const USE = statement<{ call_id: number }>("use_one_time_nonces", `${TAKE} RETURNING call_id`);
const USE_AGAIN = statement("use_one_time_nonces_again", TAKE);

/** One-time nonces that a batch may use up or free, each used by one payment until it expires. */
export class OneTimeNonces {
  readonly #known = new Map<string, NonceRow>();
  readonly #freed: NonceRow[] = [];
  /** Rows to write by their keys, because one statement cannot write a row twice. */
  readonly #used = new Map<string, NonceRow>();
  readonly #usedAgain = new Map<string, NonceRow>();

  /** @param asked nonces that the batch may use up */
  async load(sql: Sql, asked: readonly OneTimeNonce[]): Promise<void> {
    if (asked.length === 0) return;
    const found = await sql.run(SELECT, [asked.map(({ key }) => key)]);
    for (const row of found) this.#known.set(row.key, row);
  }

  isUsed({ key }: OneTimeNonce, now: number): boolean {
    const row = this.#known.get(key);
    return row !== undefined && row.expires_at_secs * 1000 > now;
  }

  /** Remembers a nonce until it expires; an expired entry is replaced. */
  use(nonce: OneTimeNonce, callId: number): void {
    const row = toRow(nonce, callId);
    this.#known.set(row.key, row);
    this.#used.set(row.key, row);
  }

  /** Frees a nonce, unless another payment has used it up since. */
  free(nonce: OneTimeNonce, callId: number): void {
    const row = toRow(nonce, callId);
    if (this.#known.get(row.key)?.call_id === callId) this.#known.delete(row.key);
    this.#freed.push(row);
  }

  /** Takes back a nonce that was freed, unless another payment has used it up since. */
  useAgain(nonce: OneTimeNonce, callId: number, now: number): void {
    const row = toRow(nonce, callId);
    if (!this.isUsed(nonce, now)) this.#known.set(row.key, row);
    else if (this.#usedAgain.has(row.key)) return;
    this.#usedAgain.set(row.key, row);
  }

  /** @throws LostRace when another batch has used a nonce in the meantime */
  async write(sql: Sql, now: number): Promise<void> {
    const used = [...this.#used.values()];
    const usedAgain = [...this.#usedAgain.values()];
    const [, , written] = await Promise.all([
      this.#freed.length === 0 ? [] : sql.run(FREE, [JSON.stringify(this.#freed)]),
      used.length === 0 ? [] : sql.run(FORGET_EXPIRED, [Math.floor(now / 1000), used.length]),
      used.length === 0 ? [] : sql.run(USE, [JSON.stringify(used), now]),
      usedAgain.length === 0 ? [] : sql.run(USE_AGAIN, [JSON.stringify(usedAgain), now]),
    ]);
    if (written.length !== used.length) throw new LostRace("a one-time nonce was used up meanwhile");
  }
}

function toRow({ key, expiresAt }: OneTimeNonce, callId: number): NonceRow {
  return { key, expires_at_secs: expiresAt, call_id: callId };
}
