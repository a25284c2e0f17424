import type { Duration } from "@bufbuild/protobuf/wkt";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { isMediaType, MAX_CONTENT_TYPE_LENGTH, MAX_RESULT_BYTES } from "../core/job-call.ts";
import {
  headersProblem,
  keptHeaders,
  MAX_HEADERS,
  MAX_HEADERS_LENGTH,
  type ResultHeader,
  statusProblem,
} from "../core/result-answer.ts";
import {
  AckMode,
  type AckRequest_Ack,
  type Charge as ChargeMessage,
  type ExtendRequest_Lease,
  type Header,
  type JobResult as JobResultMessage,
  type NackRequest_Nack,
  type SubscribeRequest as SubscribeRequestMessage,
} from "../gen/jobgate/v1/runner_pb.ts";
import type { Charge, JobResult, Lease, Progress } from "../store/contract/work-queue.ts";
import type { SubscribeRequest } from "./subscription.ts";

/** Bounds on runners' requests; a test compares docs/limits.md with this table. */
export const RUNNER_LIMITS = {
  defaultMaxInFlight: 64,
  /** Cap on `max_in_flight`: a larger value is reduced to it. */
  maxInFlight: 10_000,
  subscriberLength: 128,
  jobIdsPerStream: 1_000,
  leasesPerRequest: 10_000,
  /** Largest result of a job that allows no larger results. */
  resultBytes: MAX_RESULT_BYTES,
  contentTypeLength: MAX_CONTENT_TYPE_LENGTH,
  headers: MAX_HEADERS,
  /** Characters in the names and values of all headers. */
  headersLength: MAX_HEADERS_LENGTH,
  /** A longer reason is truncated. */
  reasonLength: 4_096,
  progressPercent: 100,
  /** Characters. A longer text is truncated. */
  progressTextLength: 200,
  retryDelayMs: 24 * 60 * 60 * 1000,
  extendMs: 24 * 60 * 60 * 1000,
  /** Fifteen results of full size fit in one request. */
  requestBytes: 16 * 1024 * 1024,
} as const;

const MAX_CALL_ID = BigInt(Number.MAX_SAFE_INTEGER);

/** Thrown when a request, or one of its parts, is invalid. The message is a sentence for the runner's author. */
export class InvalidRequestError extends Error {
  override readonly name = "InvalidRequestError";
}

/** @param peer name for a runner that does not send its name */
export function readSubscribe(request: SubscribeRequestMessage, peer: string): SubscribeRequest {
  const { subscriber, maxInFlight, jobIds, ackMode } = request;
  atMost(subscriber.length, RUNNER_LIMITS.subscriberLength, "characters in subscriber");
  atMost(jobIds.length, RUNNER_LIMITS.jobIdsPerStream, "job_ids");
  if (!Object.values<number>(AckMode).includes(ackMode)) {
    throw new InvalidRequestError(
      `ack_mode ${ackMode} is unknown: use ACK_MODE_EXPLICIT or ACK_MODE_ON_SEND.`,
    );
  }
  return {
    subscriber: subscriber === "" ? peer : subscriber,
    maxInFlight: readMaxInFlight(maxInFlight || RUNNER_LIMITS.defaultMaxInFlight),
    jobIds,
    ackOnSend: ackMode === AckMode.ON_SEND,
  };
}

/** @param maxInFlight 0 pauses the stream */
export function readMaxInFlight(maxInFlight: number): number {
  return Math.min(maxInFlight, RUNNER_LIMITS.maxInFlight);
}

/** @param count leases in one request */
export function refuseTooManyLeases(count: number): void {
  atMost(count, RUNNER_LIMITS.leasesPerRequest, "leases in one request");
}

/** Reads the lease that a request is about. @returns undefined for a call ID that no JobCall can have */
export function readLease({
  callId,
  leaseToken,
}: {
  readonly callId: bigint;
  readonly leaseToken: string;
}): Lease | undefined {
  if (callId <= 0n || callId > MAX_CALL_ID) return undefined;
  return { callId: Number(callId), leaseToken };
}

/** An ack of a message, without the fields that protobuf-es adds. */
export interface LeaseAck extends Pick<AckRequest_Ack, "callId" | "leaseToken"> {
  readonly result?: Pick<JobResultMessage, "body" | "contentType"> | undefined;
  readonly charge?: ChargeMessage | undefined;
  readonly status?: number | undefined;
  readonly headers?: readonly Pick<Header, "name" | "value">[] | undefined;
}

/** Reads an ack. Its charge is checked against the ceiling of its JobCall, and the size of its result against the job's limit. */
export function readAck({ result, charge, status, headers }: LeaseAck): {
  readonly result: JobResult | undefined;
  readonly charge: Charge | undefined;
} {
  return { result: readResult(result, readStatus(status), readHeaders(headers)), charge: readCharge(charge) };
}

function readResult(
  result: LeaseAck["result"],
  status: number | undefined,
  headers: readonly ResultHeader[] | undefined,
): JobResult | undefined {
  if (result === undefined && status === undefined && headers === undefined) return undefined;
  const { body, contentType } = result ?? NO_RESULT;
  return { body, contentType: mediaType(contentType), status, headers };
}

const NO_RESULT = { body: new Uint8Array(), contentType: "" };

function readStatus(status: number | undefined): number | undefined {
  if (status === undefined) return undefined;
  const problem = statusProblem(status);
  if (problem !== undefined) throw new InvalidRequestError(`${problem}.`);
  return status;
}

function readHeaders(headers: LeaseAck["headers"]): readonly ResultHeader[] | undefined {
  if (headers === undefined || headers.length === 0) return undefined;
  const pairs = headers.map(({ name, value }): ResultHeader => [name, value]);
  const problem = headersProblem(pairs);
  if (problem !== undefined) throw new InvalidRequestError(`${problem}.`);
  const kept = keptHeaders(pairs);
  return kept.length === 0 ? undefined : kept;
}

function readCharge(charge: ChargeMessage | undefined): Charge | undefined {
  if (charge === undefined) return undefined;
  const { amount } = charge;
  if (amount.case === undefined)
    throw new InvalidRequestError("A charge is empty: set units or basis_points.");
  if (amount.case === "basisPoints") return { basisPoints: amount.value };
  if (!/^(?:0|[1-9][0-9]{0,77})$/.test(amount.value)) {
    throw new InvalidRequestError("charge.units is not a whole number in decimal, such as 640000.");
  }
  return { units: amount.value };
}

/** Fate of a JobCall after a nack. */
type NackOutcome =
  | { readonly kind: "retry"; readonly delayMs: number | undefined; readonly reason: string }
  | { readonly kind: "fail"; readonly reason: string };

export function readNackOutcome({ outcome }: NackRequest_Nack): NackOutcome {
  if (outcome.case === "fail")
    return { kind: "fail", reason: cut(outcome.value.reason) || "Failed by the runner" };
  const { delay, reason = "" } = outcome.value ?? {};
  const delayMs = delay && milliseconds(delay, "retry.delay", { min: 0, max: RUNNER_LIMITS.retryDelayMs });
  return { kind: "retry", delayMs, reason: cut(reason) || "Retry asked for by the runner" };
}

export function readExtendMs(lease: Duration | undefined, defaultLeaseMs: number): number {
  return lease ? milliseconds(lease, "lease", { min: 1, max: RUNNER_LIMITS.extendMs }) : defaultLeaseMs;
}

export function readExtension({ progress, chargeSoFar }: ExtendRequest_Lease): {
  readonly progress: Progress | undefined;
  readonly charge: Charge | undefined;
} {
  return { progress: readProgress(progress), charge: readCharge(chargeSoFar) };
}

function readProgress(progress: ExtendRequest_Lease["progress"]): Progress | undefined {
  if (progress === undefined) return undefined;
  const { percent, text } = progress;
  if (percent > RUNNER_LIMITS.progressPercent) {
    throw new InvalidRequestError(`progress.percent is ${percent}: it must be from 0 to 100.`);
  }
  return { percent, text: firstCharacters(text, RUNNER_LIMITS.progressTextLength) };
}

function mediaType(type: string): string {
  if (type === "") return "application/octet-stream";
  atMost(type.length, RUNNER_LIMITS.contentTypeLength, "characters in content_type");
  if (!isMediaType(type)) {
    throw new InvalidRequestError('content_type is not a media type such as "application/json".');
  }
  return type;
}

function milliseconds(duration: Duration, name: string, { min, max }: { min: number; max: number }): number {
  const ms = durationMs(duration);
  if (!(ms >= min && ms <= max)) {
    throw new InvalidRequestError(`${name} must be from ${min / 1000} s to ${max / 1000} s.`);
  }
  return Math.round(ms);
}

function cut(reason: string): string {
  return firstCharacters(reason, RUNNER_LIMITS.reasonLength);
}

/** Counts code points, so that no character is cut in two. Replaces U+0000, which would end the text in SQLite. */
function firstCharacters(text: string, count: number): string {
  // A code point has at most two UTF-16 units.
  return [...text.slice(0, 2 * count)].slice(0, count).join("").replaceAll("\0", "\uFFFD");
}

function atMost(actual: number, limit: number, what: string): void {
  if (actual > limit)
    throw new InvalidRequestError(`There are ${actual} ${what}: at most ${limit} are taken.`);
}
