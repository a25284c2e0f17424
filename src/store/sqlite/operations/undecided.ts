import type { PaymentKey } from "../../../core/payment.ts";
import { YOUNG_MS } from "../../contract/payment-journal.ts";
import type { Capacity } from "../../new-call.ts";
import type { Database, Statement } from "../driver.ts";

type Count = { n: number };

/** Counting every undecided payment for each batch would cost more than the batch. */
const RECOUNT_EVERY_MS = 1_000;

/** Counts of payments that do not keep a place in the queue: undecided ones that are no longer young, and unresolved ones. */
export class Undecided {
  readonly #capacity: Capacity;
  readonly #countOld: Statement<Count>;
  readonly #countUnresolved: Statement<Count>;
  readonly #countOfPayer: Statement<Count>;
  readonly #selectOpen: Statement<{ amount: string }>;
  #total = 0;
  #countedAt: number | undefined;

  constructor(database: Database, capacity: Capacity) {
    this.#capacity = capacity;
    this.#countOld = database.prepare(
      "SELECT count(*) AS n FROM payments WHERE state = 'intent' AND created_at <= ?",
    );
    this.#countUnresolved = database.prepare(
      "SELECT count(*) AS n FROM payments WHERE state = 'unresolved' AND ceiling IS NULL",
    );
    this.#countOfPayer = database.prepare(
      `SELECT count(*) AS n FROM
         (SELECT 1 FROM payments WHERE state = 'intent' AND payer = ?1 AND created_at <= ?2
          UNION ALL SELECT 1 FROM payments WHERE state IN ('authorized', 'settling') AND payer = ?1 LIMIT ?3)`,
    );
    this.#selectOpen = database.prepare(
      `SELECT amount FROM payments
        WHERE state IN ('authorized', 'settling') AND network = ?1 AND asset = ?2 AND payer = ?3
       UNION ALL SELECT amount FROM payments INDEXED BY payments_settled
        WHERE state = 'settled' AND updated_at >= ?4 AND network = ?1 AND asset = ?2 AND payer = ?3`,
    );
  }

  /** Undecided payments that are no longer young, as of the last count. */
  get total(): number {
    return this.#total;
  }

  /** Counts those of one payer and his open payments by use, at most `limit`. */
  ofPayer(payer: string, now: number, limit: number): number {
    return this.#countOfPayer.get([payer, now - YOUNG_MS, limit])?.n ?? 0;
  }

  /**
   * Sums the amounts of a payer's open payments by use in one token, whose number {@link ofPayer} bounds, and of payments
   * that were settled since a time.
   */
  openUnits({ network, asset, payer }: PaymentKey, settledSince: number): bigint {
    return this.#selectOpen
      .all([network, asset, payer, settledSince])
      .reduce((sum, { amount }) => sum + BigInt(amount), 0n);
  }

  /** Counts again if the last count is too old, or a decision has changed it since. */
  recount(now: number): void {
    const last = this.#countedAt;
    if (last !== undefined && now >= last && now - last < RECOUNT_EVERY_MS) return;
    this.#total = this.#countOld.get([now - YOUNG_MS])?.n ?? 0;
    this.#capacity.setUncounted(this.#total + (this.#countUnresolved.get([])?.n ?? 0));
    this.#countedAt = now;
  }

  /** Makes the next batch count again. */
  forget(): void {
    this.#countedAt = undefined;
  }
}
