import { headersByName } from "../../core/result-answer.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { HttpResponse, StreamingResponse } from "../../http/response.ts";
import type { CallLookup, CallState, StoredResult } from "../../store/contract/call-lookup.ts";
import { readResultBytes } from "./result-bytes.ts";
import { selectPart } from "./result-part.ts";

/** Result of a job whose runner returned none. */
const EMPTY: StoredResult = { body: new Uint8Array(), size: 0, contentType: "application/octet-stream" };

/** Call and result that an answer is made of. */
interface ResultParts {
  readonly calls: Pick<CallLookup, "readResult">;
  readonly call: Pick<CallState, "callId" | "finishedAt" | "charge">;
  /** Undefined if the runner gave none: the answer has no body. */
  readonly result: StoredResult | undefined;
  /** Replace headers of the runner, but its Location and its Link, to which they add. */
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
    // The runner's output is untrusted on the operator's origin, so a browser must not run it.
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
  // A condition or range says nothing about any other answer.
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
