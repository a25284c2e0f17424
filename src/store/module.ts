import type { GatewayEvent } from "../core/events.ts";
import type { JobLimit } from "../core/job-call.ts";
import type { PaymentIntent } from "../core/payment.ts";
import type { CallAddition, CallCharge } from "./contract/call-lookup.ts";
import type { ListDialect, Lookup } from "./list-dialect.ts";
import type { Change, Reactions } from "./machine/changes.ts";
import type { KeyOrder } from "./new-call.ts";
import type { SoldPayment } from "./payment-row.ts";
import type { RowKey, Rows } from "./rows.ts";
import type { Contract, StoreTotals } from "./store.ts";

/** Commit that a step is part of. */
export interface Commit {
  readonly rows: Rows;
  /** Finds the payment of a JobCall that the step named. */
  payment(callId: number): SoldPayment | undefined;
  /** Reports whether a module gives the payer of a job that failed the money back itself. */
  givesBack(payment: SoldPayment): boolean;
  /** Tells the reactions of every module what the step changed. */
  note(change: Change): void;
  /** Checks whether a process holds a lock until the commit is durable. */
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
  /** JobCalls whose rows in other modules the reactions to the step's changes read. */
  reactsFor?(...input: InputOf<Method>): readonly number[];
  /** Locks that the operation checks, with the process that must hold each. */
  locks?(...input: InputOf<Method>): readonly { readonly name: string; readonly owner: string }[];
  run(commit: Commit, now: number, ...input: InputOf<Method>): OutcomeOf<Method>;
  /** Returns the event that operators see of a durable outcome; undefined if they see none. */
  event?(outcome: OutcomeOf<Method>): GatewayEvent | undefined;
}

/** Rows of a module by `call_id` that are forgotten with the payment of their JobCall. */
export interface RowsOfPayments {
  readonly table: string;
  /** SQL condition; other rows stay. @param row name of the row in the query */
  readonly if: (dialect: Pick<ListDialect, "schema">, row: string) => string;
}

/** The database that a lookup queries. */
export interface Asked {
  readonly dialect: ListDialect;
  /** Parameter that replaces the database's clock; null leaves it. */
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
  /** Type of a number in decimal that is counted ({@link Rows.count}). */
  readonly sum: string;
  /** Type of a key that the database makes. */
  readonly id: string;
  /** Type of a key that the database makes, and never makes again once its row is deleted. */
  readonly freshId: string;
  /** Type of text that is ordered by its bytes. */
  readonly bytewiseText: string;
  /** End of a table. */
  readonly plain: string;
  /** End of a table whose few rows are found by their key alone. */
  readonly small: string;
  /** End of a table whose rows change, and are deleted soon. */
  readonly churning: string;
}

/** Payments by one transfer method that begin only if rows of a module allow it. What follows is its reaction to the beginning. */
export interface BeginGate {
  readonly transferMethod: string;
  /** Keys of the rows that decide, and that the reaction writes. */
  keys(intent: PaymentIntent): readonly RowKey[];
  /** @returns why the payment cannot begin; undefined if it can */
  refusal(intent: PaymentIntent, rows: Pick<Rows, "find">, now: number): string | undefined;
  /** Reports whether the module can give the payer of a JobCall that failed the money back itself. */
  givesBack(callId: number, rows: Pick<Rows, "find">): boolean;
}

/** Order in which runners get JobCalls. The module makes a JobCall ready that it withheld once the JobCalls before it are over. */
export interface Ordering {
  /** Row that decides about a key. Every commit locks it that adds or ends a JobCall with the key. */
  row(orderKey: string): RowKey;
  /** Adds a new JobCall. @returns false if it waits for others */
  add(order: KeyOrder, rows: Rows): boolean;
  /** Adds a dead letter that is retried. @returns false if it waits for others */
  addAgain(callId: number, orderKey: string, rows: Rows): boolean;
}

/** Limits on the JobCalls of a job. */
export interface Limiting {
  /** Row that decides about a job. Claims of the job lock it. */
  row(jobId: string): RowKey;
  /**
   * Returns what a limit allows. Writes the row of the job if the clock was set back.
   * @param out JobCalls that are out now
   */
  allowance(limit: JobLimit, out: number, rows: Rows, now: number): Allowance;
  /** Notes that JobCalls were given out. */
  took(limit: JobLimit, calls: number, rows: Rows, now: number): void;
}

/** JobCalls that a limit allows now. */
export interface Allowance {
  /** Most JobCalls that can be given out. */
  readonly most: number;
  /** Milliseconds until the rate allows another one; undefined if it does now. */
  readonly nextInMs: number | undefined;
}

/** Charge of a call whose module charges back what it has not used. */
export interface ModuleCharge extends Omit<CallCharge, "symbol"> {
  /** Returns the settlement response of the call with what was charged. */
  settlementWith(settlement: string): string;
}

/** Operations of one feature on its own tables, and its reactions to the changes of other features. */
export interface StoreModule<Methods> extends Contract<Methods> {
  /** Tables of a part: the SQL that creates them, and the name of one, which shows whether a store has them. */
  readonly schema?: { readonly table: string; readonly sql: (dialect: SchemaDialect) => string };
  /** Tables that every commit may read as a whole. */
  readonly smallTables?: readonly RowKey["table"][];
  readonly steps?: { readonly [Name in keyof Methods]?: Step<Methods[Name]> };
  readonly lookups?: {
    readonly [Name in keyof Methods]?: (
      asked: Asked,
      ...input: InputOf<Methods[Name]>
    ) => Lookup<OutcomeOf<Methods[Name]>>;
  };
  /** Lookups that only operators ask for. */
  readonly forOperator?: readonly (keyof Methods)[];
  /** Names of the events that the module announces ({@link Change}), beside the end of a call. */
  readonly announces?: readonly string[];
  readonly begins?: BeginGate;
  /** Decides the further writes that a change causes in its commit. */
  readonly on?: Reactions;
  /** Rows that reactions to the end of a JobCall read. */
  readonly keysOfCall?: (callId: number) => readonly RowKey[];
  readonly ordering?: Ordering;
  readonly limiting?: Limiting;
  /** Checks whether a dead letter can be retried. */
  readonly canRetry?: (callId: number, rows: Pick<Rows, "find">) => boolean;
  readonly keeps?: readonly KeptRows[];
  readonly forgottenWithPayments?: RowsOfPayments;
  /** The row of a JobCall that its client sees: a table by `call_id`, its columns, and what they and the payment's key say. */
  readonly shown?: {
    readonly table: string;
    readonly columns: string;
    /** @returns undefined if there is nothing to say */
    addition?(row: unknown): CallAddition | undefined;
    /** @returns undefined unless the module charges back what a call has not used */
    charge?(row: unknown): ModuleCharge | undefined;
  };
  /** Rows that the totals of the store count: queries by name, and the totals that their rows say. */
  readonly counted?: {
    readonly queries: { readonly [name: string]: (dialect: ListDialect) => CountQuery };
    /** @param sums totals so far */
    totals(rows: unknown, sums: StoreTotals): Partial<StoreTotals>;
  };
  /** SQL that changes a copy of an SQLite file. What was done since the copy was made is not known in it. */
  readonly afterCopy?: string;
  /** SQL that moves the times of an SQLite file when its clock was set. `?1` is the step in milliseconds. */
  readonly onClockStep?: string;
}

// biome-ignore lint/suspicious/noExplicitAny: a list of modules has operations of all types.
export type AnyModule = StoreModule<any>;
