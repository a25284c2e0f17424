import { RESULT_CHUNK_BYTES } from "../../core/job-call.ts";
import { headersByName } from "../../core/result-answer.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { HttpResponse, StreamingResponse } from "../../http/response.ts";
import type { CallLookup, CallState, StoredResult } from "../../store/contract/call-lookup.ts";

type Results = Pick<CallLookup, "readResult">;

/**
 * Reads the bytes of a result from `first` to `last`, one chunk at a time. Each chunk is read once the reader has read the
 * chunk before it.
 */
async function* readResultBytes(
  calls: Results,
  callId: number,
  { first, last }: { readonly first: number; readonly last: number },
): AsyncGenerator<Uint8Array> {
  for (let at = first; at <= last; ) {
    const bytes = await calls.readResult(callId, at, Math.min(RESULT_CHUNK_BYTES, last + 1 - at));
    if (bytes === undefined || bytes.byteLength === 0)
      throw new Error(`the result of JobCall ${callId} ends at byte ${at}`);
    yield bytes;
    at += bytes.byteLength;
  }
}

/** Reads a whole result, which must fit in one chunk. */
export async function wholeResult(
  calls: Results,
  callId: number,
  { body, size }: Pick<StoredResult, "body" | "size">,
): Promise<Uint8Array> {
  if (body !== undefined) return body;
  const pieces: Uint8Array[] = [];
  for await (const bytes of readResultBytes(calls, callId, { first: 0, last: size - 1 })) pieces.push(bytes);
  return Buffer.concat(pieces);
}

/** Part of a result that a request selects. Both ends of a range are included. */
type ResultPart =
  | { readonly kind: "whole" }
  | { readonly kind: "not_modified" }
  | { readonly kind: "range"; readonly first: number; readonly last: number }
  | { readonly kind: "unsatisfiable" };

const WHOLE: ResultPart = { kind: "whole" };
const UNSATISFIABLE: ResultPart = { kind: "unsatisfiable" };
/** Matches a single range. A request for several ranges gets the whole result, which RFC 9110 §14.2 allows. */
const RANGE = /^bytes=[ \t]*(?:(?<first>\d{1,15})-(?<last>\d{1,15})?|-(?<suffix>\d{1,15}))[ \t]*$/i;
const ENTITY_TAG = /(?:W\/)?("[^"]*")/g;

/** Request headers that select a part of a result. */
interface Conditions {
  readonly "if-none-match"?: string | undefined;
  readonly "if-range"?: string | string[] | undefined;
  readonly range?: string | undefined;
}

/** Evaluates If-None-Match, If-Range and Range in the order of RFC 9110 §13.2.2. A header that breaks the grammar is ignored. */
export function selectPart(
  headers: Conditions,
  { etag, size }: { readonly etag: string; readonly size: number },
): ResultPart {
  const { "if-none-match": known, "if-range": unchanged, range = "" } = headers;
  if (known !== undefined && isKnown(known, etag)) return { kind: "not_modified" };
  const { first, last, suffix } = RANGE.exec(range)?.groups ?? {};
  const isChanged = unchanged !== undefined && (unchanged !== etag || etag.startsWith("W/"));
  if (isChanged || (first === undefined && suffix === undefined)) return WHOLE;
  if (first === undefined) {
    const length = Math.min(Number(suffix), size);
    return length === 0 ? UNSATISFIABLE : { kind: "range", first: size - length, last: size - 1 };
  }
  if (Number(last) < Number(first)) return WHOLE;
  if (Number(first) >= size) return UNSATISFIABLE;
  return { kind: "range", first: Number(first), last: Math.min(Number(last ?? size), size - 1) };
}

/** Compares entity tags weakly. */
function isKnown(known: string, etag: string): boolean {
  if (known.trim() === "*") return true;
  const opaque = etag.replace(/^W\//, "");
  return [...known.matchAll(ENTITY_TAG)].some(([, tag]) => tag === opaque);
}

/** Result of a job whose runner returned none. */
const EMPTY: StoredResult = { body: new Uint8Array(), size: 0, contentType: "application/octet-stream" };

/** Call and result from which an answer is made. */
interface ResultParts {
  readonly calls: Pick<CallLookup, "readResult">;
  readonly call: Pick<CallState, "callId" | "finishedAt" | "charge">;
  /** Undefined if the runner gave no result, so that the answer has no body. */
  readonly result: StoredResult | undefined;
  /** Headers that replace the runner's headers, except Location and Link, to which they are added. */
  readonly headers: HttpResponse["headers"];
  /** Body of a result that is still arriving. */
  readonly live?: StreamingResponse["stream"] | undefined;
  /** Called once the whole result was sent. */
  readonly onSent: HttpResponse["onSent"];
}

/**
 * Returns a call's result, byte for byte, with its runner's status and headers, or the part of it that the request selects. A
 * large result is read from the store while the client takes it.
 */
export function resultResponse(
  request: Pick<HttpRequest, "headers">,
  { calls, call, result = EMPTY, headers, live, onSent }: ResultParts,
): HttpResponse | StreamingResponse {
  const { body, size, contentType, status = 200 } = result;
  const { callId, finishedAt } = call;
  const byName = headersByName(result.headers ?? []);
  const described = {
    ...byName,
    "cache-control": "private, no-store",
    // The runner's output is untrusted content on the operator's origin, so a browser must not run it.
    "content-security-policy": "sandbox",
    ...(call.charge?.state === "released" && { "x-charged": "false" }),
    ...headers,
    ...(byName.location === undefined ? {} : { location: byName.location[0] }),
    ...(byName.link && headers?.link && { link: [...byName.link, String(headers.link)] }),
  };
  const whole = { ...described, "content-type": contentType };
  const bytes = (from: { readonly status: number; readonly headers: object }, first: number, last: number) =>
    body === undefined
      ? {
          status: from.status,
          headers: { ...from.headers, "content-length": last + 1 - first },
          stream: readResultBytes(calls, callId, { first, last }),
        }
      : { status: from.status, headers: { ...from.headers }, body: body.subarray(first, last + 1) };
  if (status === 204 || status === 304) return { status, headers: described, body: "", onSent };
  if (live !== undefined) return { status, headers: whole, stream: live, onSent };
  // Conditions and ranges do not apply to answers with another status.
  if (status !== 200) return { ...bytes({ status, headers: whole }, 0, size - 1), onSent };
  const etag = byName.etag?.[0] ?? `"${callId}-${finishedAt}"`;
  const part = selectPart(request.headers, { etag, size });
  const selectable = { etag, "accept-ranges": "bytes" };
  switch (part.kind) {
    case "whole":
      return { ...bytes({ status, headers: { ...whole, ...selectable } }, 0, size - 1), onSent };
    case "not_modified":
      return { status: 304, headers: { ...described, ...selectable }, body: "" };
    case "unsatisfiable": {
      const range = { "content-range": `bytes */${size}` };
      return { status: 416, headers: { ...described, ...selectable, ...range }, body: "" };
    }
    case "range": {
      const { first, last } = part;
      const range = { "content-range": `bytes ${first}-${last}/${size}` };
      return bytes({ status: 206, headers: { ...whole, ...selectable, ...range } }, first, last);
    }
  }
}
