import type { PaymentState } from "../../../../src/core/payment.ts";
import { groupedReason } from "../../../../src/store/contract/dead-letter-box.ts";
import { holdsName } from "../../../../src/store/rules/payments.ts";
import type { Database, SqlValue, Statement } from "../../../../src/store/sqlite/driver.ts";
import { openDatabase } from "../../../../src/store/sqlite/open-database.ts";
import { withBytes } from "../../../../src/store/sqlite/operations/modules.ts";
import type { Cell, Row, TableShape } from "./tables.ts";

/** Unique indexes with a condition. */
const PARTIAL: Readonly<Record<string, (row: Row) => boolean>> = {
  payments_by_purchase_name: (row) => row.purchase_name !== null && holdsName(row as { state: PaymentState }),
};

const NOTHING = () => ({});

/** Tables that SQLite does not have, or has in another shape. */
const OWN: readonly TableShape[] = [
  ...[
    ["revenue_hours", ["hour", "network", "asset", "symbol", "slot"]] as const,
    ["pending", ["slot"]] as const,
    ["batches", ["id"]] as const,
    ["locks", ["name"]] as const,
    ["advisory", ["payer"]] as const,
  ].map(([name, key]) => ({ name, key, defaults: {}, uniques: [], generated: NOTHING })),
];

/**
 * A database of the SQLite store that has the rows which are committed. Lookups read it, and the shapes of tables are
 * those of its tables.
 */
export class Mirror {
  readonly #database: Database;
  readonly shapes: readonly TableShape[];
  readonly #columns = new Map<string, readonly string[]>();
  readonly #statements = new Map<string, Statement<Row>>();

  constructor(path: string, isNew: boolean) {
    this.#database = openDatabase(path, { isNew });
    this.#database.exec("PRAGMA synchronous = OFF");
    const names = this.#all("SELECT name FROM sqlite_master WHERE type = 'table'").map(
      ({ name }) => name as string,
    );
    const own = OWN.map(({ name }) => name);
    const shapes = names.filter((name) => !own.includes(name)).map((name) => this.#shapeOf(name));
    this.shapes = [...shapes, ...OWN];
  }

  /** Writes rows as a commit leaves them. */
  write(cells: readonly Cell[]): void {
    this.#database.exec("BEGIN");
    for (const { table, key } of cells) {
      const { shape } = table;
      const columns = this.#columns.get(shape.name);
      if (columns === undefined) continue;
      const isKey = shape.key.map((column) => `${column} = ?`).join(" AND ");
      this.#run(`DELETE FROM ${shape.name} WHERE ${isKey}`, JSON.parse(key) as SqlValue[]);
    }
    for (const { table, committed } of cells) {
      const { name } = table.shape;
      const columns = this.#columns.get(name);
      if (columns === undefined || committed === undefined) continue;
      const marks = columns.map(() => "?").join();
      this.#run(
        `INSERT INTO ${name} (${columns.join()}) VALUES (${marks})`,
        columns.map((column) => sqlite(committed[column])),
      );
    }
    this.#writeRevenue(cells);
    this.#database.exec("COMMIT");
  }

  /** Runs a query for SQLite, or one for Postgres that is the same in SQLite but for names and parameters. */
  select(text: string, values: readonly unknown[]): Row[] {
    const sql = text.replaceAll("jobgate.", "").replace(/\$(\d+)(::bigint)?/g, "?$1");
    return this.#all(sql, values as SqlValue[]).map(withBytes) as Row[];
  }

  close(): void {
    this.#database.close();
  }

  #shapeOf(name: string): TableShape {
    const infos = this.#all(`PRAGMA table_info(${name})`);
    const key = infos.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk);
    const uniques = this.#all(`PRAGMA index_list(${name})`).filter(
      (index) => index.unique === 1 && index.origin !== "pk",
    );
    this.#columns.set(
      name,
      infos.map((info) => info.name),
    );
    return {
      name,
      key: key.map((info) => info.name),
      defaults: Object.fromEntries(
        infos.filter((info) => info.name !== "id").map((info) => [info.name, defaultOf(info.dflt_value)]),
      ),
      generated: name === "job_calls" ? (row) => ({ dead_group: groupOf(row) }) : NOTHING,
      uniques: uniques.map((index) => {
        const columns = this.#all(`PRAGMA index_info(${index.name})`).map((info) => info.name);
        const applies = PARTIAL[index.name] ?? (() => true);
        return (row) => {
          const values = columns.map((column) => row[column] ?? null);
          return applies(row) && !values.includes(null) ? JSON.stringify(values) : undefined;
        };
      }),
    };
  }

  /** Sums are in two parts, and by hour alone. */
  #writeRevenue(cells: readonly Cell[]): void {
    const hours = cells.filter(({ table }) => table.shape.name === "revenue_hours");
    for (const hour of new Set(hours.map(hourOf))) {
      const rows = [...(hours[0]?.table.cells.values() ?? [])].flatMap((cell) =>
        cell.committed !== undefined && hourOf(cell) === hour ? [cell.committed] : [],
      );
      const place = JSON.parse(hour) as SqlValue[];
      this.#run(
        "DELETE FROM revenue_hours WHERE hour = ? AND network = ? AND asset = ? AND symbol = ?",
        place,
      );
      // A fail-over has lost the commits that the sums were of.
      if (rows.length === 0) continue;
      const sum = (column: string) => rows.reduce((total, row) => total + BigInt(row[column]), 0n);
      const amount = sum("amount");
      const parts = [Number(amount / 10n ** 9n), Number(amount % 10n ** 9n), Number(sum("payments"))];
      this.#run("INSERT INTO revenue_hours VALUES (?, ?, ?, ?, ?, ?, ?)", [...place, ...parts]);
    }
  }

  #run(sql: string, values: readonly SqlValue[]): void {
    this.#statement(sql).run(values);
  }

  #all(sql: string, values: readonly SqlValue[] = []): Row[] {
    return this.#statement(sql).all(values);
  }

  #statement(sql: string): Statement<Row> {
    const statement = this.#statements.get(sql) ?? this.#database.prepare<Row>(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}

/** Returns hour, network, asset and symbol of sums as JSON: their key without the slot. */
function hourOf({ key }: Pick<Cell, "key">): string {
  return JSON.stringify((JSON.parse(key) as unknown[]).slice(0, 4));
}

function groupOf({ origin, service_id, job_id, dead_reason }: Row): string | null {
  return dead_reason === null ? null : `${origin} ${service_id} ${job_id} ${groupedReason(dead_reason)}`;
}

function defaultOf(text: string | null): unknown {
  if (text === null) return null;
  return text.startsWith("'") ? text.slice(1, -1) : Number(text);
}

function sqlite(value: unknown): SqlValue {
  if (typeof value === "boolean") return Number(value);
  if (value instanceof Uint8Array || value === null || typeof value === "string") return value;
  if (value === undefined) return null;
  return typeof value === "object" ? JSON.stringify(value) : Number(value);
}
