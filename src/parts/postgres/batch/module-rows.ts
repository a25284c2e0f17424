import { SMALL_TABLES } from "../../../store/modules/modules.ts";
import { nobodyKeeps } from "../../../store/part-modules.ts";
import { added, type OldRows, type RowKey, type Rows, type SqlValue } from "../../../store/rows.ts";
import { LostRace } from "../connection/database-errors.ts";
import { type Sql, statement, toJson, toStorable } from "../sql.ts";

type AnyTable = RowKey["table"];
type AnyRow = Readonly<Record<string, SqlValue>>;

/** A row that a batch may read or write. */
interface Held {
  /** True if the database had the row when the row was locked. */
  isKnown: boolean;
  isChanged: boolean;
  row: AnyRow | undefined;
}

/** Rows of modules in one batch. They are locked together, changed in memory, and written together. */
export class PostgresRows implements Rows {
  readonly #held = new Map<AnyTable, Map<string, Held>>();
  readonly #added = new Map<AnyTable, AnyRow[]>();
  readonly #forgotten = new Map<OldRows, { readonly before: number; readonly times: number }>();
  readonly #asked = new Map<AnyTable, AnyRow[]>();
  readonly #counts = new Map<AnyTable, Map<string, AnyRow>>();
  readonly #removed = new Map<AnyTable, AnyRow[]>();
  readonly #small = new Map<AnyTable, Map<string, AnyRow>>();

  /** Makes {@link load} lock a row. */
  willNeed({ table, key }: RowKey): void {
    const held = this.#heldIn(table);
    const text = keyText(table, key);
    if (held.has(text)) return;
    held.set(text, { isKnown: false, isChanged: false, row: undefined });
    append(this.#asked, table, key);
  }

  /** Reads the small tables, once. Sends its statements before it first waits. */
  async loadSmall(sql: Sql): Promise<void> {
    if (this.#small.size > 0) return;
    await Promise.all(
      SMALL_TABLES.map(async (table) => {
        const { name, columns } = table;
        const rows = await sql.run(
          statement<AnyRow>(`all_rows_of_${name}`, `SELECT ${columns.join()} FROM jobgate.${name}`),
        );
        this.#small.set(table, new Map(rows.map((row) => [keyText(table, row), row])));
      }),
    );
  }

  /** Locks the rows that are needed. Sends its statements before it first waits. */
  async load(sql: Sql): Promise<void> {
    const asked = inOrder(this.#asked);
    this.#asked.clear();
    await Promise.all(
      asked.map(async ([table, keys]) => {
        const { name, key, columns } = table;
        const keyColumns = key.map((column) => `asked.${column}`).join();
        // Ordered alike in all batches, so that no two wait for each other.
        const lock = statement<AnyRow>(
          `lock_rows_of_${name}`,
          `SELECT ${columns.map((column: string) => `held.${column}`).join()}
             FROM json_populate_recordset(NULL::jobgate.${name}, $1::json) AS asked
             JOIN jobgate.${name} AS held USING (${key.join()}) ORDER BY ${keyColumns} FOR UPDATE OF held`,
        );
        for (const row of await sql.run(lock, [toJson(keys)])) {
          this.#heldIn(table).set(keyText(table, row), { isKnown: true, isChanged: false, row });
        }
      }),
    );
  }

  find<Row>(table: AnyTable, key: object): Row | undefined {
    return this.#get(table, key as AnyRow).row as Row | undefined;
  }

  all<Row>(table: AnyTable): readonly Row[] {
    const rows = this.#small.get(table);
    if (rows === undefined) throw new Error(`a step reads all rows of ${table.name}, which were not loaded`);
    return [...rows.values()] as readonly unknown[] as readonly Row[];
  }

  remove(table: AnyTable, key: object): void {
    const text = keyText(table, key as AnyRow);
    this.#small.get(table)?.delete(text);
    const held = this.#heldIn(table).get(text);
    // A later put adds the row anew.
    if (held !== undefined) Object.assign(held, { isKnown: false, isChanged: false, row: undefined });
    append(this.#removed, table, key as AnyRow);
  }

  put(table: AnyTable, row: object): void {
    const held = this.#heldFor(table, row as AnyRow);
    held.row = storableRow(row as AnyRow);
    held.isChanged = true;
    this.#small.get(table)?.set(keyText(table, held.row), held.row);
  }

  add(table: AnyTable, row: object): void {
    append(this.#added, table, row as AnyRow);
  }

  count(table: AnyTable, by: object): void {
    const counts = this.#counts.get(table) ?? new Map<string, AnyRow>();
    this.#counts.set(table, counts);
    const text = keyText(table, by as AnyRow);
    counts.set(text, added(table, counts.get(text), by as AnyRow));
  }

  forget(old: OldRows, before: number): void {
    this.#forgotten.set(old, { before, times: (this.#forgotten.get(old)?.times ?? 0) + 1 });
  }

  /**
   * Writes the changes since the last call. Sends its statements before it first waits.
   * @throws LostRace when another batch has added a row in the meantime
   */
  async write(sql: Sql): Promise<void> {
    const [removed, more, forgotten] = [inOrder(this.#removed), inOrder(this.#added), [...this.#forgotten]];
    const counts = inOrder(this.#counts);
    this.#removed.clear();
    this.#added.clear();
    this.#counts.clear();
    this.#forgotten.clear();
    await Promise.all([
      ...removed.map(([table, keys]) => sql.run(removalOf(table), [toJson(keys)])),
      ...inOrder(this.#held).map(([table, held]) => writeHeld(sql, table, [...held.values()])),
      ...more.map(([table, rows]) => sql.run(insertOf(table), [toJson(rows)])),
      ...forgotten.map(([old, { before, times }]) => sql.run(deletionOf(old), [before, times])),
      ...counts.map(([table, by]) => sql.run(countOf(table), [toJson([...by.values()])])),
    ]);
  }

  #heldIn(table: AnyTable): Map<string, Held> {
    let held = this.#held.get(table);
    if (held === undefined) {
      held = new Map();
      this.#held.set(table, held);
    }
    return held;
  }

  /**
   * Returns the place of a row. A row that no step named is new, because the database would refuse a second row with
   * its key.
   */
  #heldFor(table: AnyTable, row: AnyRow): Held {
    const held = this.#heldIn(table);
    const text = keyText(table, row);
    const known = held.get(text) ?? { isKnown: false, isChanged: false, row: undefined };
    held.set(text, known);
    return known;
  }

  #get(table: AnyTable, key: AnyRow): Held {
    const held = this.#heldIn(table).get(keyText(table, key));
    if (held === undefined) throw new Error(`a step uses a row of ${table.name} whose key it did not name`);
    return held;
  }
}

async function writeHeld(sql: Sql, table: AnyTable, held: readonly Held[]): Promise<void> {
  const changed = held.filter(({ isChanged }) => isChanged);
  const rowsOf = (isKnown: boolean) =>
    changed.flatMap((one) => (one.isKnown === isKnown && one.row !== undefined ? [one.row] : []));
  const [news, updates] = [rowsOf(false), rowsOf(true)];
  for (const one of changed) Object.assign(one, { isKnown: true, isChanged: false });
  const [inserted] = await Promise.all([
    news.length === 0 ? [] : sql.run(newRowsOf(table), [toJson(news)]),
    updates.length === 0 ? [] : sql.run(updateOf(table), [toJson(updates)]),
  ]);
  if (inserted.length !== news.length)
    throw new LostRace(`another batch added a row of ${table.name} meanwhile`);
}

function newRowsOf({ name, key, columns }: AnyTable) {
  return statement<{ added: number }>(
    `insert_rows_of_${name}`,
    `INSERT INTO jobgate.${name} (${columns.join()})
     SELECT ${columns.join()} FROM json_populate_recordset(NULL::jobgate.${name}, $1::json) ORDER BY ${key.join()}
     ON CONFLICT DO NOTHING RETURNING 1 AS added`,
  );
}

function updateOf({ name, key, columns }: AnyTable) {
  const isSame = key.map((column) => `held.${column} = new.${column}`).join(" AND ");
  return statement(
    `update_rows_of_${name}`,
    `UPDATE jobgate.${name} AS held SET ${changing({ key, columns })
      .map((column) => `${column} = new.${column}`)
      .join()}
       FROM json_populate_recordset(NULL::jobgate.${name}, $1::json) AS new WHERE ${isSame}`,
  );
}

function insertOf({ name, key, columns }: AnyTable) {
  const added = changing({ key, columns }).join();
  return statement(
    `add_rows_of_${name}`,
    `INSERT INTO jobgate.${name} (${added}) SELECT ${added} FROM json_populate_recordset(NULL::jobgate.${name}, $1::json)
     ON CONFLICT DO NOTHING`,
  );
}

function countOf({ name, key, columns }: AnyTable) {
  // Concurrent batches count in different rows, so that no batch waits for another's commit.
  const counted = columns.map((column) => (column === "slot" ? "pg_backend_pid() % 64" : column));
  return statement(
    `count_rows_of_${name}`,
    `INSERT INTO jobgate.${name} AS sums (${columns.join()})
     SELECT ${counted.join()} FROM json_populate_recordset(NULL::jobgate.${name}, $1::json) ORDER BY ${key.join()}
     ON CONFLICT (${key.join()}) DO UPDATE SET ${changing({ key, columns })
       .map((column) => `${column} = sums.${column} + excluded.${column}`)
       .join()}`,
  );
}

function removalOf({ name, key }: AnyTable) {
  const isSame = key.map((column) => `held.${column} = old.${column}`).join(" AND ");
  return statement(
    `remove_rows_of_${name}`,
    `DELETE FROM jobgate.${name} AS held
      USING json_populate_recordset(NULL::jobgate.${name}, $1::json) AS old WHERE ${isSame}`,
  );
}

/** @returns a statement whose parameters are the time up to which rows are old, and the number of steps that forget rows */
function deletionOf({ table, where, limit }: OldRows) {
  const most = `$2::bigint * ${limit}`;
  return statement(
    `forget_rows_of_${table}`,
    `DELETE FROM jobgate.${table} WHERE ctid = ANY (ARRAY (
       SELECT ctid FROM jobgate.${table} WHERE ${where({ schema: "jobgate." }, "$1::bigint", most)}${nobodyKeeps(table, "jobgate.")}
        LIMIT ${most} FOR UPDATE SKIP LOCKED))`,
  );
}

function changing({ key, columns }: Pick<AnyTable, "key" | "columns">): readonly string[] {
  return columns.filter((column) => !key.includes(column));
}

/** Tables in one order for all batches, so that no two wait for each other. */
function inOrder<Value>(byTable: ReadonlyMap<AnyTable, Value>): [AnyTable, Value][] {
  return [...byTable].sort(([a], [b]) => (a.name < b.name ? -1 : 1));
}

function append(byTable: Map<AnyTable, AnyRow[]>, table: AnyTable, row: AnyRow): void {
  const rows = byTable.get(table);
  if (rows === undefined) byTable.set(table, [row]);
  else rows.push(row);
}

function keyText({ key }: AnyTable, row: AnyRow): string {
  return JSON.stringify(key.map((column) => toStorable(row[column])));
}

function storableRow(row: AnyRow): AnyRow {
  return Object.fromEntries(Object.entries(row).map(([column, value]) => [column, toStorable(value)]));
}
