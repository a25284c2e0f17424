import { sumsByHour } from "../../machine/books.ts";
import {
  type Change,
  type Effect,
  type Known,
  type Revenue,
  SOLD_COLUMNS,
  type SoldPayment,
} from "../../machine/changes.ts";
import { react } from "../../machine/react.ts";
import { MOVEMENT_COLUMNS, type NewMovementRow } from "../../movement-row.ts";
import type { RefundRow } from "../../refund-row.ts";
import { type Database, prepareInsert, type Statement } from "../driver.ts";

/** Divides an amount into two parts: amounts go up to 2^64 - 1, and SQLite's sums end at 2^63 - 1. */
const LOW_PART = 10n ** 9n;

/** Writes what changes of the running batch cause. Rows that are only added are written at its end, all together. */
export class Effects implements Known {
  readonly #selectPayment: Statement<SoldPayment>;
  readonly #selectAccount: Statement<{ account: string | null }>;
  readonly #insertMovement: (row: NewMovementRow) => void;
  readonly #addRevenue: Statement<unknown>;
  #movements: NewMovementRow[] = [];
  #revenue: Revenue[] = [];

  constructor(database: Database) {
    this.#selectPayment = database.prepare(`SELECT ${SOLD_COLUMNS.join()} FROM payments WHERE call_id = ?`);
    this.#selectAccount = database.prepare(
      "SELECT account FROM settler_transactions WHERE network = ? || '/refunds' AND reference = ?",
    );
    this.#insertMovement = prepareInsert(database, "movements", MOVEMENT_COLUMNS);
    this.#addRevenue = database.prepare(
      `INSERT INTO revenue_hours (hour, network, asset, symbol, high, low, payments) VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (hour, network, asset, symbol) DO UPDATE
         SET high = high + excluded.high, low = low + excluded.low, payments = payments + excluded.payments`,
    );
  }

  /** Carries out what a change causes. */
  note(change: Change): void {
    for (const effect of react(change, this)) this.#apply(effect);
  }

  payment(callId: number): SoldPayment | undefined {
    return this.#selectPayment.get([callId]);
  }

  refundAccount({ network, reference }: RefundRow): string | null {
    return this.#selectAccount.get([network, reference])?.account ?? null;
  }

  /** Writes the rows that are only added. */
  write(): void {
    const [movements, revenue] = [this.#movements, this.#revenue];
    this.discard();
    for (const row of movements) this.#insertMovement(row);
    for (const { hour, network, asset, symbol, amount, payments } of sumsByHour(revenue)) {
      const parts = [Number(amount / LOW_PART), Number(amount % LOW_PART)];
      this.#addRevenue.run([hour, network, asset, symbol, ...parts, payments]);
    }
  }

  /** Forgets them: the batch is rolled back. */
  discard(): void {
    this.#movements = [];
    this.#revenue = [];
  }

  #apply(effect: Effect): void {
    switch (effect.kind) {
      case "movement":
        this.#movements.push(effect.row);
        break;
      case "revenue":
        this.#revenue.push(effect.revenue);
        break;
    }
  }
}
