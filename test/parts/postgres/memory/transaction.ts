import { DatabaseError } from "pg";
import { DEFAULT_TIMEOUTS } from "../../../../src/parts/postgres/connection/connect.ts";
import type { Cell, Holder, Row, Tables } from "./tables.ts";

const { lockMs: LOCK_MS } = DEFAULT_TIMEOUTS;

/** An error as the server returns it. */
export function databaseError(code: string, message: string): DatabaseError {
  return Object.assign(new DatabaseError(message, 0, "error"), { code });
}

interface LockOptions {
  readonly by?: string;
  readonly limit?: number;
  /** Text of the statement, which says whether rows are locked, and whether it waits for those that others have locked. */
  readonly text?: string;
}

/**
 * A transaction with Postgres's "read committed": each statement sees what was committed when it began, and a row that
 * it locks as that row is once the lock was had.
 */
export class Transaction implements Holder {
  readonly startedAt = Date.now();
  /** Number of its connection. */
  readonly pid: number;
  isOver = false;
  readonly #tables: Tables;
  readonly #held = new Set<Cell>();
  readonly #waiting: (() => void)[] = [];
  #waitsFor: Transaction | undefined;
  #cancelWait: ((error: Error) => void) | undefined;

  constructor(tables: Tables, pid: number) {
    this.#tables = tables;
    this.pid = pid;
  }

  nextCallId(): number {
    return this.#tables.nextCallId();
  }

  /** True once it has locked something. */
  get hasLocks(): boolean {
    return this.#held.size > 0;
  }

  /** Returns the rows of a table that it sees now. */
  rows(name: string): Row[] {
    const table = this.#tables.of(name);
    const rows: Row[] = [];
    for (const cell of table.cells.values()) {
      const row = table.seenBy(this, cell);
      if (row !== undefined) rows.push(row);
    }
    return rows;
  }

  keyOf(name: string, row: Row): string {
    return this.#tables.of(name).keyOf(row);
  }

  hasWritten(name: string, row: Row): boolean {
    const { holder, isWritten } = this.#tables.of(name).cellOf(row);
    return holder === this && isWritten;
  }

  /** Finds rows, locks them in an order, and returns those that still fit. */
  async lock(name: string, fits: (row: Row) => boolean, options: LockOptions = {}): Promise<Row[]> {
    const { by, limit = Number.POSITIVE_INFINITY, text = "FOR UPDATE" } = options;
    const table = this.#tables.of(name);
    const found = this.rows(name).filter(fits);
    if (by !== undefined) found.sort((a, b) => (a[by] < b[by] ? -1 : 1));
    if (!text.includes("FOR UPDATE")) return found.slice(0, limit);
    const locked: Row[] = [];
    for (const row of found) {
      if (locked.length >= limit) break;
      const cell = table.cellOf(row);
      if (!(await this.#take(cell, text.includes("SKIP LOCKED")))) continue;
      const now = table.seenBy(this, cell);
      if (now !== undefined && fits(now)) locked.push(now);
    }
    return locked;
  }

  /** Changes the rows that fit. @returns them as they are then */
  async update(name: string, fits: (row: Row) => boolean, change: (row: Row) => Row): Promise<Row[]> {
    const changed: Row[] = [];
    for (const row of await this.lock(name, fits)) changed.push(await this.#change(name, row, change(row)));
    return changed;
  }

  /** Deletes the rows that fit. @returns them */
  async delete(name: string, fits: (row: Row) => boolean, options?: LockOptions): Promise<Row[]> {
    const rows = await this.lock(name, fits, options);
    for (const row of rows) this.#set(this.#tables.of(name).cellOf(row), undefined);
    return rows;
  }

  /** Adds a row. @returns the row; undefined if another one is in its place */
  async insert(name: string, row: Row): Promise<Row | undefined> {
    return this.#write(name, undefined, this.#tables.of(name).complete(row));
  }

  /** Adds a row. @throws DatabaseError when another one is in its place */
  async insertNew(name: string, row: Row): Promise<void> {
    if ((await this.insert(name, row)) === undefined)
      throw databaseError("23505", `duplicate key in ${name}`);
  }

  /** Adds a row, or changes the one in its place if that fits. @returns the row that was written */
  async upsert(
    name: string,
    row: Row,
    change: (row: Row) => Row,
    fits: (row: Row) => boolean = () => true,
  ): Promise<Row | undefined> {
    const table = this.#tables.of(name);
    for (;;) {
      const added = await this.insert(name, row);
      if (added !== undefined) return added;
      const cell = table.cellOf(row);
      await this.#take(cell, false);
      const existing = table.seenBy(this, cell);
      if (existing !== undefined)
        return fits(existing) ? this.#change(name, existing, change(existing)) : undefined;
    }
  }

  /** The rows that it has changed. */
  get changed(): Cell[] {
    return [...this.#held].filter(({ isWritten }) => isWritten);
  }

  /** Ends it. @returns the rows that it has changed */
  commit(): Cell[] {
    const written = this.changed;
    for (const cell of written) cell.committed = cell.pending;
    this.rollback();
    return written;
  }

  rollback(): void {
    this.isOver = true;
    for (const cell of this.#held) {
      Object.assign(cell, { holder: undefined, isWritten: false, pending: undefined });
      // A row that was deleted while this waited for its lock may have been added anew in another cell.
      const isInTable = cell.table.cells.get(cell.key) === cell;
      if (cell.committed === undefined && isInTable) cell.table.cells.delete(cell.key);
    }
    this.#held.clear();
    for (const wake of this.#waiting.splice(0)) wake();
    this.#cancelWait?.(databaseError("57P01", "terminating connection"));
  }

  /** Changes a row. @throws DatabaseError when another one is in its place */
  async #change(name: string, before: Row, row: Row): Promise<Row> {
    const written = await this.#write(name, before, row);
    if (written === undefined) throw databaseError("23505", `duplicate key in ${name}`);
    return written;
  }

  /**
   * Writes a row, once whoever may write one that it must not stand beside has ended. Nobody else can write between the last
   * check and the writing.
   * @returns the row; undefined if another one is in its place
   */
  async #write(name: string, before: Row | undefined, row: Row): Promise<Row | undefined> {
    const table = this.#tables.of(name);
    const self = before === undefined ? undefined : table.cellOf(row);
    for (;;) {
      const other = table.conflict(this, row, self);
      if (other === undefined) {
        const written = { ...row, ...table.shape.generated(row) };
        this.#set(table.cellOf(row), written);
        return written;
      }
      if (!other.isWritten || other.holder === this) return undefined;
      await this.#waitFor(other.holder as Transaction);
    }
  }

  #set(cell: Cell, row: Row | undefined): void {
    if (this.isOver) throw databaseError("57P01", "terminating connection");
    if (cell.holder !== undefined && cell.holder !== this)
      throw new Error("a row is written without its lock");
    Object.assign(cell, { holder: this, isWritten: true, pending: row });
    // The row may have been forgotten while this waited for its lock.
    cell.table.cells.set(cell.key, cell);
    if (row !== undefined) cell.table.wrote(cell, row);
    this.#held.add(cell);
  }

  /** Locks a row. @returns false if another transaction has it, and this one does not wait */
  async #take(cell: Cell, skips: boolean): Promise<boolean> {
    while (cell.holder !== undefined && cell.holder !== this) {
      if (skips) return false;
      await this.#waitFor(cell.holder as Transaction);
    }
    if (this.isOver) throw databaseError("57P01", "terminating connection");
    cell.holder = this;
    this.#held.add(cell);
    return true;
  }

  async #waitFor(holder: Transaction): Promise<void> {
    for (let other: Transaction | undefined = holder; other !== undefined; other = other.#waitsFor)
      if (other === this) throw databaseError("40P01", "deadlock detected");
    this.#waitsFor = holder;
    let timer: NodeJS.Timeout | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        this.#cancelWait = reject;
        holder.#waiting.push(resolve);
        timer = setTimeout(() => reject(databaseError("55P03", "lock timeout")), LOCK_MS);
      });
    } finally {
      clearTimeout(timer);
      this.#waitsFor = undefined;
      this.#cancelWait = undefined;
    }
  }
}
