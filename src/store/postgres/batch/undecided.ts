import { type UndecidedLimits, YOUNG_MS } from "../../contract/payment-journal.ts";
import { NOW, type Sql, statement } from "../sql.ts";

const IS_OLD = `state = 'intent' AND created_at <= ${NOW} - ${YOUNG_MS}`;
const COUNT_UNCOUNTED = statement<{ n: number }>(
  "count_uncounted",
  `SELECT (SELECT count(*) FROM jobgate.payments WHERE ${IS_OLD})
        + (SELECT count(*) FROM jobgate.payments WHERE state = 'unresolved' AND ceiling IS NULL) AS n`,
);
const COUNT_UNDECIDED = statement<{ n: number }>(
  "count_undecided",
  `SELECT count(*) AS n FROM (SELECT FROM jobgate.payments WHERE ${IS_OLD} LIMIT $2) AS old`,
);
const COUNT_UNDECIDED_BY_PAYER = statement<{ payer: string; n: number }>(
  "count_undecided_by_payer",
  `SELECT asked.payer, (SELECT count(*) FROM (
     SELECT FROM jobgate.payments WHERE payments.payer = asked.payer AND ${IS_OLD}
     UNION ALL SELECT FROM jobgate.payments WHERE payments.payer = asked.payer AND state IN ('authorized', 'settling')
     LIMIT $3) AS open) AS n
     FROM unnest($2::text[]) AS asked (payer)`,
);

/** Counts the JobCalls that do not count against `max_pending`. Only worth its cost once the queue looks full. */
export async function countUncounted(sql: Sql, now: number | null): Promise<number> {
  const [row] = await sql.run(COUNT_UNCOUNTED, [now]);
  return row?.n ?? 0;
}

/** Undecided payments that are no longer young, and a payer's open ones by use, when a batch begins. The batch itself begins only young ones. */
export class Undecided {
  readonly #now: number | null;
  readonly #ofPayers = new Map<string, number>();
  #total = 0;

  /** @param now replaces the database's clock */
  constructor(now: number | null) {
    this.#now = now;
  }

  /** Counts up to the limits. */
  async load(sql: Sql, payers: readonly string[], limits: readonly UndecidedLimits[]): Promise<void> {
    if (limits.length === 0) return;
    const maxUndecided = Math.max(...limits.map((limit) => limit.maxUndecided));
    const maxOpenPerPayer = Math.max(...limits.map((limit) => limit.maxOpenPerPayer));
    const [[total], ofPayers] = await Promise.all([
      sql.run(COUNT_UNDECIDED, [this.#now, maxUndecided]),
      sql.run(COUNT_UNDECIDED_BY_PAYER, [this.#now, [...new Set(payers)], maxOpenPerPayer]),
    ]);
    this.#total = total?.n ?? 0;
    for (const { payer, n } of ofPayers) this.#ofPayers.set(payer, n);
  }

  count(payer: string): { readonly total: number; readonly ofPayer: number } {
    return { total: this.#total, ofPayer: this.#ofPayers.get(payer) ?? 0 };
  }
}
