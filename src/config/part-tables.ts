/** A table that a part brings, as the rest of the configuration sees it. */
export interface PartTable {
  /** Paths of the keys, as the file spells them. */
  readonly paths: readonly string[];
  /** Returns what is in use after a reload of a file that has the table too. */
  afterReload(running: unknown, next: unknown): unknown;
  /** Says in a few words what the table has, if it has something: `push targets: 2`. */
  summary(own: unknown): string | undefined;
}

/** The completed tables of parts. */
export type PartTables = ReadonlyMap<PartTable, unknown>;
