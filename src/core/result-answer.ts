/*
 * HTTP status and headers of a result. Runners' acks and answers of HTTP APIs have both, and clients who paid get them with
 * the result's bytes.
 */

import { isMediaType, MAX_RESULT_BYTES, PAYMENT_PREFIXES } from "./job-call.ts";

/** Name in lower case, and value. */
export type ResultHeader = readonly [name: string, value: string];

/** Returns true for the status of a job that failed. @param status undefined means 200 */
export function hasFailed(status: number | undefined): status is number {
  return status !== undefined && status >= 400;
}

/**
 * Status 304, with which the client already has the body. A result with this status is charged only if its ack asks for
 * the whole charge.
 */
export const NOT_MODIFIED = 304;

/** Returns true if a job that is charged after it ran may be charged. @param status undefined means 200 */
export function canCharge(status: number | undefined): boolean {
  return status === undefined || (status >= 200 && status < 300);
}

const MIN_STATUS = 200;
const MAX_STATUS = 599;

/** @returns what is wrong with the status of a result; undefined if nothing is */
export function statusProblem(status: number): string | undefined {
  const isFinal = Number.isInteger(status) && status >= MIN_STATUS && status <= MAX_STATUS;
  return isFinal ? undefined : `status is ${status}: expected ${MIN_STATUS} to ${MAX_STATUS}`;
}

/** Most headers of a result, including the headers that are dropped. */
export const MAX_HEADERS = 100;
/** Most characters in the names and values of all headers of a result. */
export const MAX_HEADERS_LENGTH = 16_384;

// RFC 9110 §5.6.2 and §5.5: a name is a token, and a value has no control characters but tabs.
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** @returns what is wrong with the headers of a result; undefined if nothing is */
export function headersProblem(headers: readonly ResultHeader[]): string | undefined {
  if (headers.length > MAX_HEADERS)
    return `there are ${headers.length} headers: at most ${MAX_HEADERS} are allowed`;
  let length = 0;
  for (const [name, value] of headers) {
    if (!TOKEN.test(name)) return `${JSON.stringify(name.slice(0, 100))} is not the name of a header`;
    if (!VALUE.test(value))
      return `the value of ${name.slice(0, 100)} has a character that a header cannot have`;
    length += name.length + value.length;
  }
  return length > MAX_HEADERS_LENGTH
    ? `the headers have ${length} characters: at most ${MAX_HEADERS_LENGTH} are allowed`
    : undefined;
}

const DROPPED_NAMES: ReadonlySet<string> = new Set([
  // Headers of the connection (RFC 9110 §7.6.1), and the framing of a body that is sent again from the store.
  ...["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"],
  ...["content-length", "content-type", "date", "accept-ranges"],
  // Settings of the whole origin, which the seller's pages and other jobs share.
  ...["set-cookie", "set-cookie2", "alt-svc", "strict-transport-security", "clear-site-data"],
  ...["content-security-policy", "x-content-type-options", "nel", "report-to", "reporting-endpoints"],
  // Headers that jobgate sets.
  ...[
    "cache-control",
    "www-authenticate",
    "proxy-authenticate",
    "settlement-overrides",
    "preference-applied",
  ],
  ...[
    "x-call-id",
    "x-access-token",
    "x-charged",
    "x-charge",
    "x-receipt",
    "x-request-id",
    "x-result-truncated",
  ],
]);
const DROPPED_PREFIXES = [...PAYMENT_PREFIXES, "x-402", "access-control-"];

/**
 * Returns the headers of a result that its clients get: the end-to-end headers that say nothing about the connection,
 * the origin or the payment. Trailers are not headers, and are left out.
 */
export function keptHeaders(headers: readonly ResultHeader[]): ResultHeader[] {
  const lowered = headers.map(([name, value]): ResultHeader => [name.toLowerCase(), value.trim()]);
  const named = new Set(
    lowered.flatMap(([name, value]) => (name === "connection" ? value.toLowerCase().split(/[\s,]+/) : [])),
  );
  return lowered.filter(([name]) => !named.has(name) && !isDropped(name));
}

function isDropped(name: string): boolean {
  return DROPPED_NAMES.has(name) || DROPPED_PREFIXES.some((prefix) => name.startsWith(prefix));
}

/** Groups headers by name, as Node writes them. */
export function headersByName(headers: readonly ResultHeader[]): Record<string, string[]> {
  const byName: Record<string, string[]> = {};
  for (const [name, value] of headers) {
    const values = byName[name];
    if (values === undefined) byName[name] = [value];
    else values.push(value);
  }
  return byName;
}

/** Headers as a handler returns them: pairs, in which a name may occur twice, or an object. */
export type GivenHeaders = Iterable<ResultHeader> | Readonly<Record<string, string>>;

/** Returns headers as pairs; undefined for a value that is neither pairs of text nor an object of texts. */
function headerPairs(headers: GivenHeaders): ResultHeader[] | undefined {
  const given = Object(headers);
  const pairs: unknown[] = Symbol.iterator in given ? Array.from(given) : Object.entries(given);
  const isPair = (pair: unknown): pair is ResultHeader =>
    Array.isArray(pair) && pair.length === 2 && pair.every((part) => typeof part === "string");
  return pairs.every(isPair) ? pairs : undefined;
}

/** Status and headers that a runner gives a result. */
export interface ResultAnswer {
  /** HTTP status that the paying client gets, 200 to 599. From 400 on the job has failed, and is not tried again. Default: 200. */
  readonly status?: number;
  /** HTTP headers that the paying client gets. */
  readonly headers?: GivenHeaders;
}

/** @returns what is wrong with a result, as a sentence for the runner's author; undefined if nothing is */
export function resultProblem({
  body,
  contentType,
  status = MIN_STATUS,
  headers: given = [],
}: ResultAnswer & { readonly body: Uint8Array; readonly contentType: string }): string | undefined {
  if (body.length > MAX_RESULT_BYTES)
    return `The result has ${body.length} bytes: at most ${MAX_RESULT_BYTES} are allowed.`;
  if (!isMediaType(contentType)) return `The content type is not a media type: ${contentType}`;
  const headers = headerPairs(given);
  if (headers === undefined)
    return "The headers of the result are neither pairs of name and text, nor an object of texts.";
  const problem = statusProblem(status) ?? headersProblem(headers);
  return problem && `The result cannot be sent: ${problem}.`;
}

/** Returns the fields of an ack. */
export function answerFields({ status, headers = [] }: ResultAnswer) {
  const pairs = headerPairs(headers)?.map(([name, value]) => ({ name, value })) ?? [];
  return { ...(status === undefined ? {} : { status }), headers: pairs };
}
