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
  /** Locks that it checks, with the process that has to hold them. */
  locks?(...input: Input<Name>): readonly { readonly name: string; readonly owner: string }[];
  run(commit: Commit, now: number, ...input: Input<Name>): Outcome<Name>;
}

/** The database that a lookup asks. */
export interface Asked {
  readonly dialect: ListDialect;
  /** Parameter that replaces the database's clock; null leaves it. */
  now(): number | null;
}

/** What a feature keeps in the store: operations on its own tables, and what it writes because of other changes. */
export interface StoreModule {
  /** Decides what a commit also writes because of a change. */
  readonly on?: Reactions;
  /** Rows that reactions to the end of a JobCall read. */
  readonly keysOfCall?: (callId: number) => readonly RowKey[];
  readonly steps?: { readonly [Name in WriteName]?: Step<Name> };
  readonly lookups?: {
    readonly [Name in ReadName]?: (asked: Asked, ...input: Input<Name>) => Lookup<Outcome<Name>>;
  };
}
