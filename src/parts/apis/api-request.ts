import { randomBytes } from "node:crypto";
import { isEndToEnd } from "../../core/job-call.ts";
import { takesBody } from "../../core/route.ts";
import type { HttpMessage } from "../outbound/http-client.ts";

/** Metadata of a JobCall from a request at a job's route, in the form that the API gets. */
export interface ApiCall {
  readonly callId: number;
  readonly attempt: number;
  readonly body: Uint8Array;
  readonly metadata: Readonly<Record<string, string>>;
}

/** Metadata with the address of the client. */
export const CLIENT_METADATA = "X-FORWARDED-FOR";

const PREFIX = "X-HTTP-";
/** Metadata with this prefix that is not a header of the request. */
const NO_HEADER = /^X-HTTP-(METHOD|PATH|QUERY|PARAM-.*)$/;

/** Makes the request of a JobCall to its API: the client's matched request, with the sender's identity. */
export function requestOf(
  { callId, attempt, body, metadata }: ApiCall,
  api: { readonly headers: Readonly<Record<string, string>>; readonly publicUrl: string },
): Omit<HttpMessage, "bodyLimit"> {
  const method = metadata["X-HTTP-METHOD"] ?? "POST";
  const query = metadata["X-HTTP-QUERY"] ?? "";
  const forwarded = Object.entries(metadata).flatMap(([name, value]) => {
    const header = name.startsWith(PREFIX) && !NO_HEADER.test(name) ? name.slice(PREFIX.length) : "";
    return isEndToEnd(header) ? [[header.toLowerCase(), value] as const] : [];
  });
  return {
    method,
    target: `${metadata["X-HTTP-PATH"] ?? "/"}${query === "" ? "" : `?${query}`}`,
    headers: {
      ...Object.fromEntries(forwarded),
      ...api.headers,
      ...commonHeaders(api.publicUrl, metadata[CLIENT_METADATA]),
      ...(metadata.traceparent === undefined ? {} : { traceparent: metadata.traceparent }),
      "idempotency-key": String(callId),
      "x-jobgate-call-id": String(callId),
      "x-jobgate-attempt": String(attempt),
      "x-jobgate-payer": metadata["X-X402-PAYER"] ?? "",
    },
    body: body.byteLength > 0 || takesBody(method) ? body : undefined,
  };
}

/** Headers that say where a request came from. */
export function commonHeaders(publicUrl: string, client: string | undefined): Record<string, string> {
  const { protocol, host } = new URL(publicUrl);
  return {
    ...(client === undefined ? {} : { "x-forwarded-for": client }),
    "x-forwarded-proto": protocol.slice(0, -1),
    "x-forwarded-host": host,
  };
}

/** A trace that W3C Trace Context allows. */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/**
 * Returns the client's trace. If the client sent none, returns a new trace that is marked as not recorded. If jobgate
 * records traces, its own trace replaces the returned trace.
 */
export function traceparentOf([sent = "", ...more]: readonly string[]): string {
  if (more.length === 0 && TRACEPARENT.test(sent)) return sent;
  return `00-${randomBytes(16).toString("hex")}-${randomBytes(8).toString("hex")}-00`;
}
