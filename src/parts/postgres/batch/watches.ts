import { MAX_WATCHED, WATCHED_MS } from "../../../store/contract/payment-journal.ts";
import { LostRace } from "../connection/database-errors.ts";
import { type Sql, statement } from "../sql.ts";
import type { Entry } from "./batch.ts";
import type { KnownRow } from "./known-payments.ts";

const BEGIN_WATCHES = statement(
  "begin_watches",
  `INSERT INTO jobgate.watched_payments
   SELECT call_id, $2, ceiling IS NOT NULL FROM jobgate.payments WHERE call_id = ANY ($1::bigint[])
   ON CONFLICT (call_id) DO UPDATE SET since = excluded.since`,
);
const END_WATCHES = statement<{ call_id: number }>(
  "end_watches",
  "DELETE FROM jobgate.watched_payments WHERE call_id = ANY ($1::bigint[]) RETURNING call_id",
);
const ENDED_AT_ONCE = 500;
const beyondMost = (kind: string) => `SELECT call_id FROM jobgate.watched_payments WHERE ${kind}
            ORDER BY since DESC LIMIT ${ENDED_AT_ONCE} OFFSET ${MAX_WATCHED}`;
const END_OLD_WATCHES = statement<{ ended: number }>(
  "end_old_watches",
  `WITH ended AS (
     DELETE FROM jobgate.watched_payments WHERE call_id = ANY (ARRAY (
       SELECT call_id FROM jobgate.watched_payments
        WHERE since <= $1
           OR call_id IN (${beyondMost("is_by_use")}) OR call_id IN (${beyondMost("NOT is_by_use")})
        LIMIT ${ENDED_AT_ONCE} FOR UPDATE SKIP LOCKED))
     RETURNING call_id),
   dropped AS (
     DELETE FROM jobgate.job_bodies USING ended JOIN jobgate.payments USING (call_id)
      WHERE job_bodies.call_id = ended.call_id AND payments.state = 'failed' AND payments.ceiling IS NULL)
   SELECT count(*) AS ended FROM ended`,
);

/** Watches of decided payments that a batch begins and ends. A watch keeps the JobCall of a payment that failed, unless it is by use. */
export class Watches {
  readonly #endOld: readonly Entry<"endWatches">[];
  readonly #begunIds = new Set<number>();
  readonly #endedIds = new Set<number>();

  constructor(endOld: readonly Entry<"endWatches">[]) {
    this.#endOld = endOld;
  }

  begin(row: KnownRow): void {
    row.is_watched = true;
    this.#begunIds.add(row.call_id);
  }

  end(row: KnownRow): void {
    row.is_watched = false;
    // Begun in this batch, it was not written yet.
    if (!this.#begunIds.delete(row.call_id)) this.#endedIds.add(row.call_id);
  }

  /** @throws LostRace when another batch ended a watch meanwhile: a JobCall may be gone */
  async write(sql: Sql, now: number): Promise<void> {
    const [ended, begun] = [[...this.#endedIds], [...this.#begunIds]];
    const endings = ended.length === 0 ? [] : sql.run(END_WATCHES, [ended]);
    const beginnings = begun.length === 0 ? [] : sql.run(BEGIN_WATCHES, [begun, now]);
    const oldEndings = this.#endOld.map(async ({ decide }) => {
      const [row] = await sql.run(END_OLD_WATCHES, [now - WATCHED_MS]);
      decide(row?.ended === ENDED_AT_ONCE);
    });
    const [written] = await Promise.all([endings, beginnings, ...oldEndings]);
    if (written.length !== ended.length) throw new LostRace("a payment's watch was ended meanwhile");
  }
}
