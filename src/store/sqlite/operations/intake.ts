import {
  type DeliveryRow,
  FORGOTTEN_AT_ONCE,
  type IntakeRows,
  type IntakeSteps,
} from "../../machine/intake.ts";
import type { NewCall } from "../../new-call.ts";
import { type Database, prepareRows, type Statement } from "../driver.ts";
import type { BulkTable } from "../transaction.ts";
import type { NewCalls } from "./new-calls.ts";

/** Deliveries that are accepted together: their keys are read together, and written together. */
export class SqliteIntakeRows implements IntakeRows {
  readonly #newCalls: NewCalls;
  readonly #select: (parameters: readonly [json: string]) => DeliveryRow[];
  readonly #upsert: Statement<unknown>;
  readonly #forgetExpired: Statement<unknown>;
  #known = new Map<string, DeliveryRow>();
  #unwritten = new Map<string, DeliveryRow>();

  constructor(database: Database, newCalls: NewCalls) {
    this.#newCalls = newCalls;
    this.#select = prepareRows<DeliveryRow>(
      database,
      ["key", "body_hash", "call_id", "expires_at"],
      "FROM deliveries WHERE key IN (SELECT value FROM json_each(?))",
    );
    this.#upsert = database.prepare(
      `INSERT OR REPLACE INTO deliveries (key, body_hash, call_id, expires_at)
       SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?)`,
    );
    this.#forgetExpired = database.prepare(
      "DELETE FROM deliveries WHERE key IN (SELECT key FROM deliveries WHERE expires_at <= ? LIMIT ?)",
    );
  }

  read(keys: readonly string[]): void {
    this.#unwritten = new Map();
    this.#known = new Map(this.#select([JSON.stringify(keys)]).map((row) => [row.key, row]));
  }

  add(call: NewCall, now: number): number {
    return this.#newCalls.add(call, "ready", now);
  }

  find(key: string): DeliveryRow | undefined {
    return this.#known.get(key);
  }

  remember(row: DeliveryRow): void {
    this.#known.set(row.key, row);
    this.#unwritten.set(row.key, row);
  }

  write(now: number): void {
    const rows = [...this.#unwritten.values()];
    if (rows.length === 0) return;
    this.#forgetExpired.run([now, FORGOTTEN_AT_ONCE * rows.length]);
    this.#upsert.run([
      JSON.stringify(rows.map((row) => [row.key, row.body_hash, row.call_id, row.expires_at])),
    ]);
  }
}

export function acceptOnceInBulk(
  rows: SqliteIntakeRows,
  steps: IntakeSteps,
): BulkTable<"acceptOnce">["acceptOnce"] {
  return (operations) => {
    const keys = operations.flatMap(({ input: [, delivery] }) => delivery.keys);
    rows.read(keys.flatMap(({ key, identifies }) => (identifies ? key : [])));
    const outcomes = operations.map(({ now, input }) => steps.acceptOnce(now, ...input));
    rows.write(operations.at(-1)?.now ?? 0);
    return outcomes;
  };
}
