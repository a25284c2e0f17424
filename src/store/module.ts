import type { GatewayEvent } from "../core/events.ts";
import type { JobLimit } from "../core/job-call.ts";
import type { PaymentIntent } from "../core/payment.ts";
import type { CallAddition, CallCharge } from "./contract/call-lookup.ts";
import type { ListDialect, Lookup } from "./list-dialect.ts";
import type { Change, Reactions } from "./machine/changes.ts";
import type { KeyOrder } from "./new-call.ts";
import type { SoldPayment } from "./payment-row.ts";
import type { RowKey, Rows, Table } from "./rows.ts";
import type { Contract, StoreTotals } from "./store.ts";

/** The commit that a step belongs to. */
export interface Commit {
  readonly rows: Rows;
  /** Finds the payment of a JobCall that the step named. */
  payment(callId: number): SoldPayment | undefined;
  /** Returns true if a module itself gives the money of a failed job back to the payer. */
  givesBack(payment: SoldPayment): boolean;
  /** Passes a change of the step to the reactions of every module. */
  note(change: Change): void;
  /** Returns true if a process holds a lock until the commit is durable. */
  isHeld(lock: string, owner: string, now: number): boolean;
}

type InputOf<Method> = Method extends (...input: infer Input) => Promise<unknown> ? Input : never;
type OutcomeOf<Method> = Method extends (...input: never) => Promise<infer Outcome> ? Outcome : never;

/** An operation that reads rows, decides, and writes rows. Every database runs the same decision. */
export interface Step<Method> {
  /** Keys of the rows that the operation may read or write. */
  keys?(...input: InputOf<Method>): readonly RowKey[];
  /** JobCalls whose payments the step, or reactions to its changes, read. */
  callIds?(...input: InputOf<Method>): readonly number[];
  /** JobCalls whose rows in other modules are read by the reactions to the step's changes. */
  reactsFor?(...input: InputOf<Method>): readonly number[];
  /** Keys of JobCalls ({@link "../core/job-call.ts".orderKeyOf}) whose rows the step changes ({@link Ordering.row}). */
  orderKeys?(...input: InputOf<Method>): readonly string[];
  /** Locks that the operation checks, with the process that must hold each. */
  locks?(...input: InputOf<Method>): readonly { readonly name: string; readonly owner: string }[];
  run(commit: Commit, now: number, ...input: InputOf<Method>): OutcomeOf<Method>;
  /** Returns the event that operators see of a durable outcome; undefined if they see no event. */
  event?(outcome: OutcomeOf<Method>): GatewayEvent | undefined;
}

/** Rows of a module, by `call_id`, that are deleted with the payment of their JobCall. */
export interface RowsOfPayments {
  readonly table: string;
  /** SQL condition; other rows stay. @param row name of the row in the query */
  readonly if: (dialect: Pick<ListDialect, "schema">, row: string) => string;
}

/** The database that a lookup queries. */
export interface Asked {
  readonly dialect: ListDialect;
  /** Parameter that replaces the database's clock; null to use the database's clock. */
  now(): number | null;
}

/** A query of rows that totals count: their values by name, and the SQL from FROM on. */
export interface CountQuery {
  readonly values: Readonly<Record<string, string>>;
  readonly from: string;
}

/** Rows of another module, or of the core, that stay while a condition holds. */
export interface KeptRows {
  readonly table: string;
  /** SQL condition. @param row name of the row in the query */
  readonly while: (dialect: Pick<ListDialect, "schema">, row: string) => string;
}

/** SQL of a schema that differs between dialects. */
export interface SchemaDialect extends Pick<ListDialect, "schema"> {
  /** Type of whole numbers. */
  readonly integer: string;
  /** Type of a decimal number that {@link Rows.count} adds to. */
  readonly sum: string;
  /** Type of a key that the database generates. */
  readonly id: string;
  /** Type of a key that the database generates, and never reuses after its row is deleted. */
  readonly freshId: string;
  /** Type of text that is ordered by its bytes. */
  readonly bytewiseText: string;
  /** End of a table definition. */
  readonly plain: string;
  /** End of the definition of a table with few rows, which are found only by their key. */
  readonly small: string;
  /** End of the definition of a table whose rows change, and are soon deleted. */
  readonly churning: string;
}

/** Payments by one transfer method that begin only if rows of a module allow it. The module can react to the beginning. */
export interface BeginGate {
  readonly transferMethod: string;
  /** Keys of the rows that decide, and that the reaction writes. */
  keys(intent: PaymentIntent): readonly RowKey[];
  /** @returns the reason why the payment cannot begin; undefined if it can */
  refusal(intent: PaymentIntent, rows: Pick<Rows, "find">, now: number): string | undefined;
  /** Returns true if the module itself can give the money of a failed JobCall back to the payer. */
  givesBack(callId: number, rows: Pick<Rows, "find">): boolean;
}

/**
 * Order in which runners get JobCalls. The module withholds a JobCall, and makes it ready once the JobCalls before it are
 * over.
 */
export interface Ordering {
  /** Row that decides about a key. Every commit that adds or ends a JobCall with the key locks the row. */
  row(orderKey: string): RowKey;
  /** Adds a new JobCall. @returns `waits` if it waits for other JobCalls or for the operator, `refused` if it is not added */
  add(order: KeyOrder, rows: Rows): "first" | "waits" | "refused";
  /** Adds a dead letter that is retried. @returns false if it waits for other JobCalls or for the operator */
  addAgain(callId: number, orderKey: string, rows: Rows): boolean;
  /** Takes a JobCall back that was ready, leased or delayed. @returns false if runners can have it again, true if it waits */
  takeBack(orderKey: string, rows: Rows): boolean;
  /** Reports whether a dead letter holds up its key. */
  isHeldBy(callId: number, orderKey: string, rows: Pick<Rows, "find">): boolean;
}

/** Limits on the JobCalls of a job. */
export interface Limiting {
  /** Row that decides about a job. Claims of the job's JobCalls lock the row. */
  row(jobId: string): RowKey;
  /**
   * Returns what a limit allows. Writes the row of the job if the clock was set back.
   * @param out number of leased JobCalls
   */
  allowance(limit: JobLimit, out: number, rows: Rows, now: number): Allowance;
  /** Notes that JobCalls were given out. */
  took(limit: JobLimit, calls: number, rows: Rows, now: number): void;
}

/** JobCalls that a limit allows now. */
export interface Allowance {
  /** Largest number of JobCalls that can be given out. */
  readonly most: number;
  /** Milliseconds until the rate allows another JobCall; undefined if it allows one now. */
  readonly nextInMs: number | undefined;
}

/** Charge of a call whose module charges back the unused part. */
export interface ModuleCharge extends Omit<CallCharge, "symbol"> {
  /** Returns the settlement response of the call with the amount that was charged. */
  settlementWith(settlement: string): string;
}

/** A job whose JobCalls go only to claims that reserve jobs. */
export interface ReservedJobRow {
  /** Decimal. */
  readonly job_id: string;
  /** Unix milliseconds. */
  readonly since: number;
}

/** Operations of one feature on its own tables, and its reactions to the changes of other features. */
export interface StoreModule<Methods> extends Contract<Methods> {
  /**
   * Tables of a part: the SQL that creates them, and the name of one table, whose presence shows that a store has the
   * tables.
   */
  readonly schema?: { readonly table: string; readonly sql: (dialect: SchemaDialect) => string };
  /** Tables that every commit may read completely. */
  readonly smallTables?: readonly RowKey["table"][];
  readonly steps?: { readonly [Name in keyof Methods]?: Step<Methods[Name]> };
  readonly lookups?: {
    readonly [Name in keyof Methods]?: (
      asked: Asked,
      ...input: InputOf<Methods[Name]>
    ) => Lookup<OutcomeOf<Methods[Name]>>;
  };
  /** Lookups that only operators use. */
  readonly forOperator?: readonly (keyof Methods)[];
  /** Names of the events that the module announces ({@link Change}), in addition to the end of a call. */
  readonly announces?: readonly string[];
  readonly begins?: BeginGate;
  /** Decides the further writes that a change causes in its commit. */
  readonly on?: Reactions;
  /** Rows that reactions to the end of a JobCall read. */
  readonly keysOfCall?: (callId: number) => readonly RowKey[];
  readonly ordering?: Ordering;
  readonly limiting?: Limiting;
  /** Table of the reserved jobs. */
  readonly reserving?: Table<ReservedJobRow, "job_id">;
  /** Checks whether a dead letter can be retried. */
  readonly canRetry?: (callId: number, rows: Pick<Rows, "find">) => boolean;
  readonly keeps?: readonly KeptRows[];
  readonly forgottenWithPayments?: readonly RowsOfPayments[];
  /**
   * Row of a JobCall that its client sees: a table by `call_id`, its columns, and functions that turn the columns into
   * fields.
   */
  readonly shown?: {
    readonly table: string;
    readonly columns: string;
    /** @returns undefined if there is nothing to add */
    addition?(row: unknown): CallAddition | undefined;
    /** @returns undefined if the module does not charge back the unused part of the call's payment */
    charge?(row: unknown): ModuleCharge | undefined;
  };
  /** Rows that the store's totals include: queries by name, and a function that turns their rows into totals. */
  readonly counted?: {
    readonly queries: { readonly [name: string]: (dialect: ListDialect) => CountQuery };
    /** @param sums totals so far */
    totals(rows: unknown, sums: StoreTotals): Partial<StoreTotals>;
  };
  /** SQL that changes a copy of an SQLite file, because the copy lacks everything that was done since it was made. */
  readonly afterCopy?: string;
  /** SQL that shifts the times in an SQLite file after its clock was set. `?1` is the step in milliseconds. */
  readonly onClockStep?: string;
}

// biome-ignore lint/suspicious/noExplicitAny: a list of modules has operations of all types.
export type AnyModule = StoreModule<any>;
