import { oneSpelling } from "../../../core/payment.ts";
import type { CallDetails } from "../../../store/contract/operator-lists.ts";

/**
 * Kinds of values in the index. A payment has `transaction` and `purchase_name`, a refused request has `request`, and a
 * JobCall has `metadata`.
 */
export type TermKind = "transaction" | "purchase_name" | "request" | "metadata";

/** Value of an entry, in the form that the index has. */
export interface SearchTerm {
  readonly kind: TermKind;
  /** Result of {@link termOf}. */
  readonly term: string;
  /** Call ID; for the kind `request`, the ID of the refusal. */
  readonly entry: number;
}

/**
 * Rows that the index is filled from, each in the order of its positions: JobCalls and the names of purchases by call ID,
 * settled payments by time, refused payments by ID.
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
  /** Encoded JobCalls without their bodies, whose metadata is to be indexed. */
  readonly heads: readonly { readonly callId: number; readonly head: Uint8Array }[];
  /** Position of the last row; undefined if there are no rows. */
  readonly end: SearchPosition | undefined;
  /** True if more rows may follow at once. */
  readonly hasMore: boolean;
}

/** One more than the most entries of one kind that a search shows. The extra entry shows that there are more. */
export const FOUND_AT_ONCE = 21;

/** Entries that begin with a text. Newest first among equal values. */
export interface Found {
  /** Call IDs that begin with the digits of the text; an equal call ID first. */
  readonly numbers: readonly number[];
  readonly transactions: readonly FoundPayment[];
  readonly purchaseNames: readonly FoundPayment[];
  readonly payers: readonly string[];
  readonly requests: readonly FoundRequest[];
  /** Call IDs whose metadata has a value that the index cannot distinguish from a value with the text. */
  readonly withMetadata: readonly number[];
  /** JobCalls of all the entries above that were queued. */
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

/**
 * Index of the values that operators search for. A background service fills it, so that accepting a JobCall does not write it.
 */
export interface SearchIndex {
  searchPositions(): Promise<Readonly<Record<SearchSource, SearchPosition>>>;
  /**
   * Reads a bounded number of the next rows of a source.
   * @param minAgeMs least age of the rows, by the store's clock
   */
  listUnindexed(source: SearchSource, after: SearchPosition, minAgeMs: number): Promise<UnindexedRows>;
  /** Adds terms that the index does not have yet. @param moved positions that the index has reached with the terms */
  addSearchTerms(
    terms: readonly SearchTerm[],
    moved: readonly { readonly source: SearchSource; readonly position: SearchPosition }[],
  ): Promise<void>;
  /** Checks whether the rows of the next entries were deleted. @returns true if a row was, and the last entry if more follow */
  findForgotten(after: number): Promise<{ readonly isAnyGone: boolean; readonly next: number | undefined }>;
  /** Removes the terms of entries whose rows were deleted, among the entries that {@link findForgotten} reads. */
  forgetSearchTerms(after: number): Promise<void>;
  /** Finds the values that begin with a text. */
  search(text: string): Promise<Found>;
}

/** Shortest text to search for, except the number of a call. */
export const MIN_TEXT_LENGTH = 3;

/** Longest term of the index, except transactions. A search compares the full values of the rows that a term leads to. */
const TERM_LENGTH = 40;

/** Returns the form of a value in which letter case makes no difference. */
export function folded(value: string): string {
  return value.toLowerCase();
}

/** Returns the beginning of a value, which the index has. A transaction is kept whole, because its row may not have it. */
export function termOf(kind: TermKind, value: string): string {
  if (kind === "transaction") return oneSpelling(value);
  // Drop half a surrogate pair, which the cut can leave.
  return [...folded(value).slice(0, TERM_LENGTH)]
    .filter((letter) => !/^[\ud800-\udfff]$/.test(letter))
    .join("");
}
