// biome-ignore lint/suspicious/noExplicitAny: a row of any table
export type Row = Readonly<Record<string, any>>;

/** Definition of a table. */
export interface TableShape {
  readonly name: string;
  readonly key: readonly string[];
  /** Values of columns that an insert leaves out. */
  readonly defaults: Row;
  /** Texts that no two rows share; undefined for a row that the constraint leaves out. */
  readonly uniques: readonly ((row: Row) => string | undefined)[];
  /** Columns that follow from others. */
  generated(row: Row): Row;
}

/** A row's place, with what the transaction that holds its lock has made of it. */
export interface Cell {
  readonly table: Table;
  readonly key: string;
  committed: Row | undefined;
  /** Row as its holder leaves it; undefined if the holder deletes it. */
  pending: Row | undefined;
  isWritten: boolean;
  holder: Holder | undefined;
}

/** Transaction that holds locks. */
export interface Holder {
  readonly isOver: boolean;
}

/** The rows of a table, committed and not. */
export class Table {
  readonly shape: TableShape;
  readonly cells = new Map<string, Cell>();
  /** Cells that ever had a row with a unique text, by the constraint and the text. */
  readonly #byText: readonly Map<string, Set<Cell>>[];
  #lastId = 0;

  constructor(shape: TableShape) {
    this.shape = shape;
    this.#byText = shape.uniques.map(() => new Map());
  }

  keyOf(row: Row): string {
    return JSON.stringify(this.shape.key.map((column) => row[column]));
  }

  /** Completes a row with its defaults, and with an ID if its key is one. */
  complete(row: Row): Row {
    const [key = ""] = this.shape.key;
    const id = key === "id" && row.id === undefined ? { id: ++this.#lastId } : {};
    return { ...this.shape.defaults, ...row, ...id };
  }

  cellOf(row: Row): Cell {
    const key = this.keyOf(row);
    const cell = this.cells.get(key) ?? {
      ...{ table: this, key, committed: undefined, pending: undefined, isWritten: false, holder: undefined },
    };
    this.cells.set(key, cell);
    return cell;
  }

  /** Returns the row as a holder of locks sees it. */
  seenBy(holder: Holder, cell: Cell): Row | undefined {
    return cell.holder === holder && cell.isWritten ? cell.pending : cell.committed;
  }

  /** Notes that a cell has a row. */
  wrote(cell: Cell, row: Row): void {
    for (const [i, texts] of this.#byText.entries()) {
      const text = this.shape.uniques[i]?.(row);
      if (text === undefined) continue;
      const cells = texts.get(text) ?? new Set();
      texts.set(text, cells.add(cell));
    }
  }

  /** Finds another row, committed or not, that a row must not stand beside: the oldest of several. */
  conflict(holder: Holder, row: Row, self: Cell | undefined): Cell | undefined {
    const keys = [this.keyOf(row), ...this.shape.uniques.map((unique) => unique(row))];
    const isConflict = (cell: Cell) => {
      if (cell === self || this.cells.get(cell.key) !== cell) return false;
      const versions = cell.holder === holder ? [this.seenBy(holder, cell)] : [cell.committed, cell.pending];
      const isAlike = (other: Row | undefined) =>
        other !== undefined &&
        [cell.key, ...this.shape.uniques.map((unique) => unique(other))].some(
          (text, index) => text !== undefined && text === keys[index],
        );
      return versions.some(isAlike);
    };
    const sameKey = this.cells.get(keys[0] as string);
    const found = new Set(sameKey && isConflict(sameKey) ? [sameKey] : []);
    for (const [i, texts] of this.#byText.entries())
      for (const cell of texts.get(keys[i + 1] ?? "") ?? []) if (isConflict(cell)) found.add(cell);
    if (found.size < 2) return [...found][0];
    return [...this.cells.values()].find((cell) => found.has(cell));
  }
}

/** All tables of a database. */
export class Tables {
  readonly #tables: ReadonlyMap<string, Table>;
  #lastCallId = 0;

  constructor(shapes: readonly TableShape[]) {
    this.#tables = new Map(shapes.map((shape) => [shape.name, new Table(shape)]));
  }

  of(name: string): Table {
    const table = this.#tables.get(name);
    if (table === undefined) throw new Error(`there is no table ${name}`);
    return table;
  }

  /** IDs are drawn outside of transactions. */
  nextCallId(): number {
    return ++this.#lastCallId;
  }
}
