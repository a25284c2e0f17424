import type { PaymentKey } from "../../../core/payment.ts";
import type { UndecidedLimits } from "../../../store/contract/payment-journal.ts";
import {
  countOfPayer,
  countOld,
  countUnresolved,
  isOld,
  selectOpen,
} from "../../../store/payment-queries.ts";
import { LIST_DIALECT as DIALECT, NOW, type Sql, statement } from "../sql.ts";

const COUNT_UNCOUNTED = statement<{ n: number }>(
  "count_uncounted",
  `SELECT (${countOld(DIALECT, NOW)}) + (${countUnresolved(DIALECT)}) AS n`,
);
const COUNT_UNDECIDED = statement<{ n: number }>(
  "count_undecided",
  `SELECT count(*) AS n FROM (SELECT FROM jobgate.payments WHERE ${isOld(NOW)} LIMIT $2) AS old`,
);
const COUNT_UNDECIDED_BY_PAYER = statement<{ payer: string; n: number }>(
  "count_undecided_by_payer",
  `SELECT asked.payer, (${countOfPayer(DIALECT, { payer: "asked.payer", now: NOW, limit: "$3" })}) AS n
     FROM unnest($2::text[]) AS asked (payer)`,
);

// Ordered alike in all batches. A payer's batches wait for each other, so that their ceilings are added up.
const LOCK_PAYERS = statement(
  "lock_payers",
  `SELECT pg_advisory_xact_lock(hash) FROM (
     SELECT DISTINCT hashtextextended('payer ' || payer, 0) AS hash FROM unnest($1::text[]) AS asked (payer) ORDER BY hash
   ) AS ordered`,
);
const SUM_OPEN = statement<{ network: string; asset: string; payer: string; units: string }>(
  "sum_open",
  `SELECT network, asset, payer, ${DIALECT.sumOf("amount")} AS units FROM (${selectOpen(DIALECT, {
    columns: "network, asset, payer, amount",
    condition: "payer = ANY ($2::text[])",
    since: `${NOW} - $3`,
  })}) AS open
    GROUP BY network, asset, payer`,
);

/** Longest time for which a payment usually waits for its batch. The age of its funds was measured before that wait. */
const QUEUED_MS = 250;

/** Counts the JobCalls that `max_pending` excludes. The count is only worth its cost if the queue looks full. */
export async function countUncounted(sql: Sql, now: number | null): Promise<number> {
  const [row] = await sql.run(COUNT_UNCOUNTED, [now]);
  return row?.n ?? 0;
}

/**
 * Undecided payments that are no longer young, and a payer's open deferred payments, at the beginning of a batch. Payments
 * that the batch itself begins are young.
 */
export class Undecided {
  readonly #now: number | null;
  readonly #ofPayers = new Map<string, number>();
  readonly #openUnits = new Map<string, bigint>();
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

  /** Sums, for each payer, the ceilings of open deferred payments and the amounts settled since the funds of the payer were read. */
  async loadOpen(sql: Sql, payers: readonly string[], fundsAgeMs: number): Promise<void> {
    if (payers.length === 0) return;
    await sql.run(LOCK_PAYERS, [payers]);
    for (const { units, ...token } of await sql.run(SUM_OPEN, [this.#now, payers, fundsAgeMs + QUEUED_MS]))
      this.#openUnits.set(tokenText(token), BigInt(units));
  }

  /** Returns the token units of a payer's open deferred payments. */
  openUnits(key: PayersToken): bigint {
    return this.#openUnits.get(tokenText(key)) ?? 0n;
  }

  /** Adds a deferred payment that this batch begins. */
  add(key: PayersToken, amount: string): void {
    this.#ofPayers.set(key.payer, (this.#ofPayers.get(key.payer) ?? 0) + 1);
    this.#openUnits.set(tokenText(key), this.openUnits(key) + BigInt(amount));
  }

  count(payer: string): { readonly total: number; readonly ofPayer: number } {
    return { total: this.#total, ofPayer: this.#ofPayers.get(payer) ?? 0 };
  }
}

type PayersToken = Pick<PaymentKey, "network" | "asset" | "payer">;

function tokenText({ network, asset, payer }: PayersToken): string {
  return `${network} ${asset} ${payer}`;
}
