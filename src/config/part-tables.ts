import type { BindAddress } from "../core/network-address.ts";

/** A part's table, as the rest of the configuration sees it. */
export interface PartTable {
  /** Summarises the table in a few words: `push targets: 2`. Undefined if there is nothing to summarise. */
  summary(own: unknown): string | undefined;
  /** Returns tokens that the part offers in addition to the configured tokens. */
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
