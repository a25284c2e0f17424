import type { CallerNonce } from "../../../core/payment.ts";
import { LostRace } from "../connection/database-errors.ts";
import { type Sql, statement } from "../sql.ts";

/** Expired nonces that are deleted whenever one is added: more than one, so that they never pile up. */
const NONCES_FORGOTTEN_AT_ONCE = 10;

interface NonceRow {
  caller: string;
  service_id: string;
  job_index: number;
  nonce: string;
  expires_at_secs: number;
  call_id: number;
}

const SELECT = statement<NonceRow>(
  "select_caller_nonces",
  `SELECT caller, service_id, job_index, nonce, expires_at_secs, used.call_id
     FROM jobgate.caller_nonces AS used
     JOIN unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS asked (caller, service_id, job_index, nonce)
    USING (caller, service_id, job_index, nonce)`,
);
const FREE = statement(
  "free_caller_nonces",
  `DELETE FROM jobgate.caller_nonces AS used
    USING json_populate_recordset(NULL::jobgate.caller_nonces, $1::json) AS free
    WHERE (used.caller, used.service_id, used.job_index, used.nonce, used.call_id)
        = (free.caller, free.service_id, free.job_index, free.nonce, free.call_id)`,
);
const FORGET_EXPIRED = statement(
  "forget_caller_nonces",
  `DELETE FROM jobgate.caller_nonces WHERE ctid = ANY (ARRAY (
     SELECT ctid FROM jobgate.caller_nonces WHERE expires_at_secs <= $1
      LIMIT $2 * ${NONCES_FORGOTTEN_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
);
// An expired entry is replaced.
const TAKE = `
  INSERT INTO jobgate.caller_nonces AS used
  SELECT * FROM json_populate_recordset(NULL::jobgate.caller_nonces, $1::json)
   ORDER BY caller, service_id, job_index, nonce
  ON CONFLICT (caller, service_id, job_index, nonce)
  DO UPDATE SET expires_at_secs = excluded.expires_at_secs, call_id = excluded.call_id
      WHERE used.expires_at_secs * 1000 <= $2`;
const USE = statement<{ call_id: number }>("use_caller_nonces", `${TAKE} RETURNING call_id`);
const USE_AGAIN = statement("use_caller_nonces_again", TAKE);

/** Nonces of delegated callers that a batch may use up or free, each used by one payment until it expires. */
export class CallerNonces {
  readonly #known = new Map<string, NonceRow>();
  readonly #used: NonceRow[] = [];
  readonly #freed: NonceRow[] = [];
  readonly #usedAgain: NonceRow[] = [];

  /** @param asked nonces that the batch may use up */
  async load(sql: Sql, asked: readonly CallerNonce[]): Promise<void> {
    if (asked.length === 0) return;
    const rows = asked.map((nonce) => toRow(nonce, 0));
    const found = await sql.run(SELECT, [
      rows.map(({ caller }) => caller),
      rows.map(({ service_id }) => service_id),
      rows.map(({ job_index }) => job_index),
      rows.map(({ nonce }) => nonce),
    ]);
    for (const row of found) this.#known.set(keyOf(row), row);
  }

  isUsed(nonce: CallerNonce, now: number): boolean {
    const row = this.#known.get(keyOf(toRow(nonce, 0)));
    return row !== undefined && row.expires_at_secs * 1000 > now;
  }

  /** Remembers a nonce until it expires; an expired entry is replaced. */
  use(nonce: CallerNonce, callId: number): void {
    const row = toRow(nonce, callId);
    this.#known.set(keyOf(row), row);
    this.#used.push(row);
  }

  /** Frees a nonce, unless another payment has used it up since. */
  free(nonce: CallerNonce, callId: number): void {
    const row = toRow(nonce, callId);
    if (this.#known.get(keyOf(row))?.call_id === callId) this.#known.delete(keyOf(row));
    this.#freed.push(row);
  }

  /** Takes back a nonce that was freed, unless another payment has used it up since. */
  useAgain(nonce: CallerNonce, callId: number): void {
    this.#usedAgain.push(toRow(nonce, callId));
  }

  /** @throws LostRace when another batch used a nonce up meanwhile */
  async write(sql: Sql, now: number): Promise<void> {
    const used = this.#used;
    const [, , written] = await Promise.all([
      this.#freed.length === 0 ? [] : sql.run(FREE, [JSON.stringify(this.#freed)]),
      used.length === 0 ? [] : sql.run(FORGET_EXPIRED, [Math.floor(now / 1000), used.length]),
      used.length === 0 ? [] : sql.run(USE, [JSON.stringify(used), now]),
      this.#usedAgain.length === 0 ? [] : sql.run(USE_AGAIN, [JSON.stringify(this.#usedAgain), now]),
    ]);
    if (written.length !== used.length) throw new LostRace("a caller's nonce was used up meanwhile");
  }
}

function toRow(nonce: CallerNonce, callId: number): NonceRow {
  return {
    caller: nonce.caller.toLowerCase(),
    service_id: String(nonce.serviceId),
    job_index: nonce.jobIndex,
    nonce: nonce.nonce,
    expires_at_secs: nonce.expiresAt,
    call_id: callId,
  };
}

function keyOf({ caller, service_id, job_index, nonce }: NonceRow): string {
  return JSON.stringify([caller, service_id, job_index, nonce]);
}
