import type { ResultHeader } from "../../core/result-answer.ts";

/** A whole answer, or the part of it that is read. */
export interface HttpAnswer {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  readonly retryAfter: string | undefined;
  readonly headers: readonly ResultHeader[];
  /** Cut at the client's limit. Empty if a sink took the body. */
  readonly body: Buffer;
  readonly isCut: boolean;
}

/** Outcome of a request. */
export type HttpOutcome =
  | { readonly kind: "answered"; readonly answer: HttpAnswer }
  /** The request was sent, and no whole answer came in time. */
  | { readonly kind: "timed_out"; readonly reason: string }
  /**
   * The connection broke after the request was sent. The server may have received the request, and may have crashed because
   * of it.
   */
  | {
      readonly kind: "lost";
      readonly reason: string;
      /** True if a part of an answer had arrived. */
      readonly hasBegun: boolean;
    }
  /** There was no connection, so the server has not received the request. */
  | { readonly kind: "unreached"; readonly reason: string }
  /** The request has a header that HTTP does not allow. */
  | { readonly kind: "invalid"; readonly reason: string };

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/**
 * Parses Retry-After: seconds, or an HTTP date.
 * @param now Unix milliseconds
 * @returns undefined for anything else, and for a time that is not ahead
 */
export function retryAfterMs(value: string | undefined, now: number, longestMs: number): number | undefined {
  if (value === undefined) return undefined;
  const waitMs = /^\d+$/.test(value) ? Number(value) * 1_000 : httpDate(value) - now;
  return waitMs > 0 ? Math.min(waitMs, longestMs) : undefined;
}

/** Returns Unix milliseconds, or NaN. `Date.parse` alone also reads plain numbers and dates without a zone. */
function httpDate(value: string): number {
  return / GMT$/.test(value) ? Date.parse(value) : Number.NaN;
}
