import type { OutgoingHttpHeaders } from "node:http";
import { stringify } from "lossless-json";
import type { ErrorCode, GatewayError } from "../core/errors.ts";

/** What a route answers. */
export interface HttpResponse {
  readonly status: number;
  readonly headers?: OutgoingHttpHeaders;
  readonly body: string | Uint8Array;
  /** Why the request was refused, if it was: told to the operator, not sent. */
  readonly refusal?: ErrorCode;
  /** The JobCall that the request led to, if any: told to the operator beside the answer. */
  readonly callId?: number;
}

/** An answer that goes on for as long as its body does; each piece is sent at once. */
export interface StreamingResponse {
  readonly status: number;
  readonly headers?: OutgoingHttpHeaders;
  /** Asked for the next piece once the client has taken the last. Has to end when {@link HttpRequest.closed} aborts. */
  readonly stream: AsyncIterable<string>;
}

/**
 * A JSON answer that no cache may keep, unless `headers` say otherwise.
 * A bigint becomes a JSON number with all its digits: service ids are u64.
 */
export function jsonResponse(
  status: number,
  value: unknown,
  headers: OutgoingHttpHeaders = {},
): HttpResponse {
  return {
    status,
    headers: { "content-type": "application/json", "cache-control": "no-store", ...headers },
    body: stringify(value) ?? "",
  };
}

export function textResponse(status: number, body: string): HttpResponse {
  return { status, headers: { "content-type": "text/plain; charset=utf-8" }, body };
}

/** `{"error": sentence, "code": snake_case, …details}`, the shape of every refusal. */
export function errorResponse(error: GatewayError, details = error.details): HttpResponse {
  const { status, message, code, headers } = error;
  return { ...jsonResponse(status, { error: message, code, ...details }, headers), refusal: code };
}
