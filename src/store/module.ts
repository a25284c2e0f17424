import type { ListDialect, Lookup } from "./list-dialect.ts";
import type { Change, Reactions } from "./machine/changes.ts";
import type { Input, Outcome, ReadName, WriteName } from "./operations.ts";
import type { RowKey, Rows } from "./rows.ts";

/** Commit that a step is part of. */
export interface Commit {
  readonly rows: Rows;
  /** Tells the reactions of every module what the step changed. */
  note(change: Change): void;
  /** Checks whether a process holds a lock until the commit is durable. */
  isHeld(lock: string, owner: string, now: number): boolean;
}

/** An operation that reads rows, decides, and writes rows. Every database runs the same decision. */
export interface Step<Name extends WriteName> {
  /** Keys of the rows that the operation may read or write. */
  keys?(...input: Input<Name>): readonly RowKey[];
  /** JobCalls whose payments reactions to its changes read. */
  callIds?(...input: Input<Name>): readonly number[];
  /** Locks that the operation checks, with the process that must hold each. */
  locks?(...input: Input<Name>): readonly { readonly name: string; readonly owner: string }[];
  run(commit: Commit, now: number, ...input: Input<Name>): Outcome<Name>;
}

/** The database that a lookup queries. */
export interface Asked {
  readonly dialect: ListDialect;
  /** Parameter that replaces the database's clock; null leaves it. */
  now(): number | null;
}

/** Operations of one feature on its own tables, and its reactions to the changes of other features. */
export interface StoreModule {
  /** Decides the further writes that a change causes in its commit. */
  readonly on?: Reactions;
  /** Rows that reactions to the end of a JobCall read. */
  readonly keysOfCall?: (callId: number) => readonly RowKey[];
  readonly steps?: { readonly [Name in WriteName]?: Step<Name> };
  readonly lookups?: {
    readonly [Name in ReadName]?: (asked: Asked, ...input: Input<Name>) => Lookup<Outcome<Name>>;
  };
}
