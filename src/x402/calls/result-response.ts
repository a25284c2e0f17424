import { headersByName } from "../../core/result-answer.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { HttpResponse } from "../../http/response.ts";
import type { CallState } from "../../store/contract/call-lookup.ts";
import type { JobResult } from "../../store/contract/work-queue.ts";
import { selectPart } from "./result-part.ts";

/** Result of a job whose runner returned none. */
const EMPTY: JobResult = { body: new Uint8Array(), contentType: "application/octet-stream" };

/**
 * Returns a call's result, byte for byte, with its runner's status and headers, or the part of it that the request selects.
 * The body is empty if the runner gave no result.
 * @param headers replace headers of the runner, but its Location
 */
export function resultResponse(
  request: Pick<HttpRequest, "headers">,
  call: Pick<CallState, "callId" | "finishedAt">,
  { body, contentType, status = 200, headers: given = [] }: JobResult = EMPTY,
  headers: HttpResponse["headers"] = {},
): HttpResponse {
  const byName = headersByName(given);
  const described = {
    ...byName,
    "cache-control": "private, no-store",
    // The runner's output is untrusted on the operator's origin, so a browser must not run it.
    "content-security-policy": "sandbox",
    ...headers,
    ...(byName.location === undefined ? {} : { location: byName.location[0] }),
  };
  const whole = { ...described, "content-type": contentType };
  // A condition or range says nothing about any other answer.
  if (status !== 200) return { status, headers: whole, body };
  const etag = byName.etag?.[0] ?? `"${call.callId}-${call.finishedAt}"`;
  const size = body.byteLength;
  const part = selectPart(request.headers, { etag, size });
  const selectable = { etag, "accept-ranges": "bytes" };
  switch (part.kind) {
    case "whole":
      return { status, headers: { ...whole, ...selectable }, body };
    case "not_modified":
      return { status: 304, headers: { ...described, ...selectable }, body: "" };
    case "unsatisfiable": {
      const range = { "content-range": `bytes */${size}` };
      return { status: 416, headers: { ...described, ...selectable, ...range }, body: "" };
    }
    case "range": {
      const { first, last } = part;
      const range = { "content-range": `bytes ${first}-${last}/${size}` };
      return {
        status: 206,
        headers: { ...whole, ...selectable, ...range },
        body: body.subarray(first, last + 1),
      };
    }
  }
}
