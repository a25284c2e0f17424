import type { BindAddress } from "../core/network-address.ts";

/** A table that a part brings, as the rest of the configuration sees it. */
export interface PartTable {
  /** Says in a few words what the table has, if it has something: `push targets: 2`. */
  summary(own: unknown): string | undefined;
  /** Returns tokens that the part offers beside the configured tokens. */
  tokensBeside<Token>(own: unknown, tokens: readonly Token[]): readonly Token[];
}

/** The completed tables of parts. */
export type PartTables = ReadonlyMap<PartTable, unknown>;

/** An address that a part listens on. */
export interface TableListener {
  /** Table of the file that has its `bind_address`. */
  readonly table: string;
  readonly bindAddress: BindAddress | undefined;
}
