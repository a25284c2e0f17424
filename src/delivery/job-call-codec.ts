import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { CALL_ID_METADATA, type JobCallEncoder } from "../core/job-call.ts";
import { type JobCall as JobCallMessage, JobCallSchema } from "../gen/jobgate/v1/runner_pb.ts";
import type { ClaimedCall } from "../store/contract/work-queue.ts";

/** Encodes the fields of a `jobgate.v1.JobCall` that are known when it is accepted. */
export const encodeJobCall: JobCallEncoder = ({ jobId, serviceId, body, metadata }) =>
  toBinary(JobCallSchema, create(JobCallSchema, { jobId, serviceId, body, metadata: { ...metadata } }));

/**
 * Encodes one delivery: the stored bytes unchanged, then the fields that are known only now.
 *
 * Protobuf defines the concatenation of two encodings as their merge, and a map as a repeated field of entries.
 * Neither the body nor the stored metadata has to be decoded.
 * https://protobuf.dev/programming-guides/encoding/#last-one-wins
 */
export function encodeDelivery(claimed: ClaimedCall): Buffer {
  const known = create(JobCallSchema, {
    callId: BigInt(claimed.callId),
    metadata: { [CALL_ID_METADATA]: String(claimed.callId) },
    leaseToken: claimed.leaseToken,
    attempt: claimed.attempt,
    enqueuedAt: timestampFromMs(claimed.enqueuedAt),
    leaseExpiresAt: timestampFromMs(claimed.leaseExpiresAt),
  });
  return Buffer.concat([claimed.encoded, toBinary(JobCallSchema, known)]);
}

/** Decodes stored or delivered bytes, for operators. Missing fields get their proto3 defaults. */
export function decodeJobCall(encoded: Uint8Array): JobCallMessage {
  return fromBinary(JobCallSchema, encoded);
}
