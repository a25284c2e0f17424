import type { OutgoingHttpHeaders } from "node:http";
import { stringify } from "lossless-json";
import type { ErrorCode, GatewayError } from "../core/errors.ts";

/** A route's answer. */
export interface HttpResponse {
  readonly status: number;
  readonly headers?: OutgoingHttpHeaders;
  readonly body: string | Uint8Array;
  /** Error code of a refusal, for logs and metrics. */
  readonly refusal?: ErrorCode;
  /** JobCall that the request created, for logs. */
  readonly callId?: number;
  readonly onSent?: OnSent;
}

/** Called once the client has taken the whole answer, as far as HTTP shows. Its next request waits for it. */
export type OnSent = (() => void | Promise<void>) | undefined;

/** An answer whose body arrives over time; each piece is sent at once. */
export interface StreamingResponse {
  readonly status: number;
  readonly headers?: OutgoingHttpHeaders;
  /** Pulled for the next piece once the client has taken the last. Must end when {@link HttpRequest.closed} aborts. */
  readonly stream: AsyncIterable<string | Uint8Array>;
  readonly onSent?: OnSent;
}

/** Headers of a JSON answer that no cache may keep. */
export const JSON_HEADERS: OutgoingHttpHeaders = Object.freeze({
  "content-type": "application/json",
  "cache-control": "no-store",
});

/**
 * Returns a JSON answer that no cache may keep, unless `headers` say otherwise.
 * A bigint becomes a JSON number with all its digits, because service ids are u64.
 */
export function jsonResponse(
  status: number,
  value: unknown,
  headers: OutgoingHttpHeaders = {},
): HttpResponse {
  return {
    status,
    headers: { ...JSON_HEADERS, ...headers },
    body: stringify(value) ?? "",
  };
}

export function textResponse(status: number, body: string): HttpResponse {
  return { status, headers: { "content-type": "text/plain; charset=utf-8" }, body };
}

/** Returns `{"error": sentence, "code": snake_case, …details}`, the shape of every refusal. */
export function errorResponse(error: GatewayError, details = error.details): HttpResponse {
  const { status, message, code, headers } = error;
  return { ...jsonResponse(status, { error: message, code, ...details }, headers), refusal: code };
}

/** Thrown when another server's answer is larger than any valid one. */
export class BodyTooLarge extends Error {}

/** Reads the body of another server's answer, up to `maxBytes`. @throws BodyTooLarge */
export async function readBoundedBody(response: Response, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > maxBytes) throw new BodyTooLarge(`the body is larger than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
