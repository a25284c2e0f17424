/** Read-only access to a store, even while another process serves it. */
export interface StoreInspection {
  info(): Promise<StoreInfo>;
  /**
   * Checks that the store's contents are consistent.
   * @returns one sentence for each problem
   */
  check(): Promise<string[]>;
  /**
   * Reads rows.
   * @param sql makes the query. `schema` is the prefix of table names: empty, or with a dot at its end
   * @throws Error for a store of another version of jobgate
   */
  read<Row>(sql: (schema: string) => string): Promise<Row[]>;
  /**
   * Writes a consistent copy to a new file, even while the store is served.
   * @throws Error when the file exists or cannot be written, or the store is not a file
   */
  backup(file: string): Promise<void>;
  close(): Promise<void>;
}

export interface StoreInfo {
  /** Name of the database system. */
  readonly kind: string;
  /** Path of the file, or host and database. */
  readonly place: string;
  readonly bytes: number;
  readonly schemaVersion: number;
  /**
   * Number of rows of each kind, with the time of the oldest row in Unix milliseconds. Undefined if another version of
   * jobgate made the store.
   */
  readonly rows?: readonly StoredRows[];
}

export interface StoredRows {
  readonly name: string;
  readonly count: number;
  readonly oldest: number | null;
}

/** A problem that was found. */
export interface Finding {
  readonly problem: string;
  /** Number of rows with the problem. */
  readonly n: number;
}
