import { normalKey, oneSpelling, type PaymentKey } from "../../../core/payment.ts";
import type { Capacity } from "../../new-call.ts";
import { countOfPayer, countOld, countUnresolved, selectOpen } from "../../undecided-queries.ts";
import type { Database, Statement } from "../driver.ts";
import { DIALECT } from "./modules.ts";

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
    this.#countOld = database.prepare(countOld(DIALECT, "?1"));
    this.#countUnresolved = database.prepare(countUnresolved(DIALECT));
    this.#countOfPayer = database.prepare(countOfPayer(DIALECT, { payer: "?1", now: "?2", limit: "?3" }));
    const condition = "network = ?1 AND asset = ?2 AND payer = ?3";
    this.#selectOpen = database.prepare(selectOpen(DIALECT, { columns: "amount", condition, since: "?4" }));
  }

  /** Undecided payments that are no longer young, as of the last count. */
  get total(): number {
    return this.#total;
  }

  /** Counts a payer's undecided payments that are no longer young, and their open deferred payments, up to `limit`. */
  ofPayer(payer: string, now: number, limit: number): number {
    return this.#countOfPayer.get([oneSpelling(payer), now, limit])?.n ?? 0;
  }

  /**
   * Sums the amounts of a payer's open deferred payments in one token, whose number {@link ofPayer} bounds, and of payments
   * that were settled since a time.
   */
  openUnits(key: PaymentKey, settledSince: number): bigint {
    const { network, asset, payer } = normalKey(key);
    return this.#selectOpen
      .all([network, asset, payer, settledSince])
      .reduce((sum, { amount }) => sum + BigInt(amount), 0n);
  }

  /** Counts again if the last count is too old, or a decision has changed it since. */
  recount(now: number): void {
    const last = this.#countedAt;
    if (last !== undefined && now >= last && now - last < RECOUNT_EVERY_MS) return;
    this.#total = this.#countOld.get([now])?.n ?? 0;
    this.#capacity.setUncounted(this.#total + (this.#countUnresolved.get([])?.n ?? 0));
    this.#countedAt = now;
  }

  /** Makes the next batch count again. */
  forget(): void {
    this.#countedAt = undefined;
  }
}
