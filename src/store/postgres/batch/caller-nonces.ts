import type { CallerNonce } from "../../../core/payment.ts";
import { LostRace } from "../connection/database-errors.ts";
import { type Sql, statement } from "../sql.ts";

/** Expired nonces that are forgotten whenever one is remembered: more than one, so that they never pile up. */
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
const USE = statement<{ call_id: number }>(
  "use_caller_nonces",
  `INSERT INTO jobgate.caller_nonces AS used
   SELECT * FROM json_populate_recordset(NULL::jobgate.caller_nonces, $1::json)
    ORDER BY caller, service_id, job_index, nonce
   ON CONFLICT (caller, service_id, job_index, nonce)
   DO UPDATE SET expires_at_secs = excluded.expires_at_secs, call_id = excluded.call_id
       WHERE used.expires_at_secs * 1000 <= $2
   RETURNING call_id`,
);

/** The nonces of delegated callers that matter to one batch, each used up by one payment until it expires. */
export interface CallerNonces {
  load(sql: Sql): Promise<void>;
  isUsed(nonce: CallerNonce, now: number): boolean;
  /** Remembers it until it expires; one that has expired is written over. */
  use(nonce: CallerNonce, callId: number): void;
  /** Frees it, unless another payment has used it up since. */
  free(nonce: CallerNonce, callId: number): void;
  /** @throws LostRace when one was used up by another batch meanwhile */
  write(sql: Sql, now: number): Promise<void>;
}

/** @param asked those that payments of the batch may use up */
export function createCallerNonces(asked: readonly CallerNonce[]): CallerNonces {
  const known = new Map<string, NonceRow>();
  const used: NonceRow[] = [];
  const freed: NonceRow[] = [];
  return {
    async load(sql) {
      if (asked.length === 0) return;
      const rows = asked.map((nonce) => toRow(nonce, 0));
      const found = await sql.run(SELECT, [
        rows.map(({ caller }) => caller),
        rows.map(({ service_id }) => service_id),
        rows.map(({ job_index }) => job_index),
        rows.map(({ nonce }) => nonce),
      ]);
      for (const row of found) known.set(keyOf(row), row);
    },
    isUsed(nonce, now) {
      const row = known.get(keyOf(toRow(nonce, 0)));
      return row !== undefined && row.expires_at_secs * 1000 > now;
    },
    use(nonce, callId) {
      const row = toRow(nonce, callId);
      known.set(keyOf(row), row);
      used.push(row);
    },
    free(nonce, callId) {
      const row = toRow(nonce, callId);
      if (known.get(keyOf(row))?.call_id === callId) known.delete(keyOf(row));
      freed.push(row);
    },
    async write(sql, now) {
      const [, , written] = await Promise.all([
        freed.length === 0 ? [] : sql.run(FREE, [JSON.stringify(freed)]),
        used.length === 0 ? [] : sql.run(FORGET_EXPIRED, [Math.floor(now / 1000), used.length]),
        used.length === 0 ? [] : sql.run(USE, [JSON.stringify(used), now]),
      ]);
      if (written.length !== used.length) throw new LostRace("a caller's nonce was used up meanwhile");
    },
  };
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
