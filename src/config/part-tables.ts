import type { Job } from "./jobs.ts";

/** Tables of the core that get values of a part when they are shown. */
export interface ShownBeside {
  readonly x402?: { readonly jobs?: readonly Job[] };
}

/** A table that a part brings, as the rest of the configuration sees it. */
export interface PartTable {
  /** Paths of the keys, as the file spells them. */
  readonly paths: readonly string[];
  /** Returns what is in use after a reload of a file that has the table too. */
  afterReload(running: unknown, next: unknown): unknown;
  /** Says in a few words what the table has, if it has something: `push targets: 2`. */
  summary(own: unknown): string | undefined;
  /** Returns what operators see of the table, without secrets. */
  show(own: unknown, whole: ShownBeside): object;
}

/** The completed tables of parts. */
export type PartTables = ReadonlyMap<PartTable, unknown>;
