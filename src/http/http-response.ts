import type { OutgoingHttpHeaders } from "node:http";
import { stringify } from "lossless-json";
import type { GatewayError } from "../errors.ts";

/** What a route answers. */
export interface HttpResponse {
  readonly status: number;
  readonly headers?: OutgoingHttpHeaders;
  readonly body: string | Uint8Array;
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
  return jsonResponse(error.status, { error: error.message, code: error.code, ...details }, error.headers);
}
