import {
  CALL_ID_METADATA,
  isMediaType,
  type JobCallOrigin,
  OPERATOR_ORIGIN_METADATA,
} from "../../core/job-call.ts";
import { type SigningKey, signStandardWebhook } from "../../core/standard-webhooks.ts";
import { decodeJobCall } from "../../delivery/job-call-codec.ts";
import type { CalledJob, ClaimedCall } from "../../store/contract/work-queue.ts";

/** Metadata that holds the Content-Type of the client's request. */
const CONTENT_TYPE_METADATA = "X-HTTP-CONTENT-TYPE";
/** Metadata of every paid JobCall, and of JobCalls with which the operator repeats a paid JobCall. */
const PAID_METADATA = "X-X402-ORIGIN";
const DEFAULT_CONTENT_TYPE = "application/octet-stream";

interface CloudEvent {
  readonly headers: Record<string, string>;
  readonly body: Uint8Array;
  readonly job: CalledJob;
}

/**
 * Makes the CloudEvent that pushes a JobCall, in HTTP's binary mode.
 * https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/http-protocol-binding.md
 */
export function toCloudEvent(call: ClaimedCall, leaseMs: number): CloudEvent {
  const { callId, attempt, leaseToken } = call;
  const { jobId, serviceId, body, metadata } = decodeJobCall(call.encoded);
  const headers: Record<string, string> = {
    "content-type": contentType(metadata[CONTENT_TYPE_METADATA]),
    "ce-specversion": "1.0",
    "ce-type": "jobgate.job",
    "ce-source": `/services/${serviceId}`,
    "ce-id": String(callId),
    "ce-subject": String(jobId),
    "ce-time": new Date(call.enqueuedAt).toISOString(),
    "ce-attempt": String(attempt),
    "ce-leasetoken": leaseToken,
    "ce-leasesecs": String(leaseMs / 1000),
    "ce-leaseexpires": new Date(call.leaseExpiresAt).toISOString(),
    [CALL_ID_METADATA]: String(callId),
  };
  for (const [name, value] of Object.entries(metadata))
    if (METADATA_NAME.test(name)) headers[name] = headerValue(value);
  return { headers, body, job: { origin: originOf(metadata), serviceId, jobId } };
}

function originOf(metadata: Readonly<Record<string, string>>): JobCallOrigin {
  if (OPERATOR_ORIGIN_METADATA in metadata) return "operator";
  return PAID_METADATA in metadata ? "x402" : "webhook";
}

/** Returns the headers that sign a request by Standard Webhooks; empty without a key. */
export function signatureHeaders(
  { headers, body }: Pick<CloudEvent, "headers" | "body">,
  keys: readonly SigningKey[],
  now: number,
): Record<string, string> {
  if (keys.length === 0) return {};
  const id = headers["ce-id"] ?? "";
  const time = String(Math.floor(now / 1000));
  const signatures = keys.map((key) => signStandardWebhook(key, `${id}.${time}.`, body));
  return { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": signatures.join(" ") };
}

/** Form of metadata names. Another name must not become a header, because it could be a header that describes the request. */
const METADATA_NAME = /^X-[!#$%&'*+.^_`|~0-9A-Z-]+$/i;

/** Escapes a value by CloudEvents' rule, except spaces and quotes, which a header can hold. */
function headerValue(value: string): string {
  return value.replaceAll(/[^\x20-\x7e]|%|^ | $/gu, (character) =>
    Buffer.from(character).reduce((escaped, byte) => `${escaped}%${hex(byte)}`, ""),
  );
}

function hex(byte: number): string {
  return byte.toString(16).toUpperCase().padStart(2, "0");
}

/**
 * Returns the type that the client sent. A type of CloudEvents is replaced, because with it the client could write the whole
 * event.
 */
function contentType(sent = ""): string {
  return isMediaType(sent) && !/^application\/cloudevents/i.test(sent) ? sent : DEFAULT_CONTENT_TYPE;
}
