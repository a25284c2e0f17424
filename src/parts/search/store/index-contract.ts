import { oneSpelling } from "../../../core/payment.ts";
import type { CallDetails } from "../../../store/contract/operator-lists.ts";

/** Values that the index has. A payment has the first two, a refused request the third, a JobCall the last. */
export type TermKind = "transaction" | "payment_id" | "request" | "metadata";

/** A value of an entry, as the index has it. */
export interface SearchTerm {
  readonly kind: TermKind;
  /** As {@link termOf} returns it. */
  readonly term: string;
  /** Call ID; of a `request` the ID of its refusal. */
  readonly entry: number;
}

/**
 * Rows that the index is filled from, each in the order of its positions: JobCalls and the identifiers of payments by call ID, settled
 * payments by time, refused payments by ID.
 */
export const SEARCH_SOURCES = ["calls", "settled", "refused"] as const;
export type SearchSource = (typeof SEARCH_SOURCES)[number];

/** Last row of a source that is in the index. */
export interface SearchPosition {
  /** Unix milliseconds. */
  readonly at: number;
  /** Call ID, or ID of the refusal. */
  readonly entry: number;
}

/** Next rows of a source. */
export interface UnindexedRows {
  readonly terms: readonly SearchTerm[];
  /** JobCalls whose metadata is to be indexed: encoded calls without their bodies. */
  readonly heads: readonly { readonly callId: number; readonly head: Uint8Array }[];
  /** Position of the last row; undefined if there are none. */
  readonly end: SearchPosition | undefined;
  /** True if more rows may follow at once. */
  readonly hasMore: boolean;
}

/** Most entries of one kind that a search returns, and one more, which tells that there are more. */
export const FOUND_AT_ONCE = 21;

/** Entries that begin with a text. Newest first among equal values. */
export interface Found {
  /** Call IDs that begin with the digits of the text; the equal one first. */
  readonly numbers: readonly number[];
  readonly transactions: readonly FoundPayment[];
  readonly paymentIds: readonly FoundPayment[];
  readonly payers: readonly string[];
  readonly requests: readonly FoundRequest[];
  /** Call IDs whose metadata has a value that the index cannot distinguish from a value with the text. */
  readonly withMetadata: readonly number[];
  /** The JobCalls of all of these that were queued. */
  readonly calls: readonly CallDetails[];
  /** True if the index lacks JobCalls that were accepted minutes ago. */
  readonly isIncomplete: boolean;
}

export interface FoundPayment {
  readonly callId: number;
  readonly value: string;
}

export interface FoundRequest {
  readonly requestId: string;
  readonly payer: string | undefined;
  readonly code: string;
  readonly serviceId: bigint;
  readonly jobIndex: number;
  readonly at: number;
}

/** Index of what operators look for. It is filled in the background, so that no accept writes it. */
export interface SearchIndex {
  searchPositions(): Promise<Readonly<Record<SearchSource, SearchPosition>>>;
  /**
   * Reads the next rows of a source, a bounded number.
   * @param minAgeMs least age of the rows, by the store's clock
   */
  listUnindexed(source: SearchSource, after: SearchPosition, minAgeMs: number): Promise<UnindexedRows>;
  /** Adds terms that the index does not have yet. @param moved positions up to which the index has sources then */
  addSearchTerms(
    terms: readonly SearchTerm[],
    moved: readonly { readonly source: SearchSource; readonly position: SearchPosition }[],
  ): Promise<void>;
  /** Looks at the next entries of the index. @returns whether some are gone, and the last one if more follow */
  findForgotten(after: number): Promise<{ readonly isAnyGone: boolean; readonly next: number | undefined }>;
  /** Removes the terms of entries that are gone, among the entries that {@link findForgotten} reads. */
  forgetSearchTerms(after: number): Promise<void>;
  /** Finds what begins with a text. */
  search(text: string): Promise<Found>;
}

/** Shortest text that is looked for, beside the number of a call. */
export const MIN_TEXT_LENGTH = 3;

/** Longest term of the index, beside transactions. The rows that a term leads to are compared in full. */
const TERM_LENGTH = 40;

/** Returns a value as it is compared: in any letter case. */
export function folded(value: string): string {
  return value.toLowerCase();
}

/** Returns the beginning of a value that the index has; a transaction as a whole, because its row may not have it. */
export function termOf(kind: TermKind, value: string): string {
  if (kind === "transaction") return oneSpelling(value);
  // Without half of a surrogate pair, which the end may leave.
  return [...folded(value).slice(0, TERM_LENGTH)]
    .filter((letter) => !/^[\ud800-\udfff]$/.test(letter))
    .join("");
}
