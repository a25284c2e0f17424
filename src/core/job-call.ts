/** Gateway through which a job was started. */
export type JobCallOrigin = "x402" | "webhook";

/** One request to run a job, before the store has given it a call id. */
export interface JobCall {
  readonly origin: JobCallOrigin;
  /** u64: the webhook endpoint's `job_id`, or the job index of a paid job. */
  readonly jobId: bigint;
  /** u64 */
  readonly serviceId: bigint;
  /** The request body, byte for byte. */
  readonly body: Uint8Array;
  /**
   * Metadata that jobgate makes, but {@link CALL_ID_METADATA}, which is added once the store has given the call its id. If
   * it is frozen, its encoding is kept for further JobCalls with the same object.
   */
  readonly metadata: Readonly<Record<string, string>>;
  /** More metadata, of this request alone. It cannot replace `metadata`. */
  readonly requestMetadata?: readonly (readonly [name: string, value: string])[];
}

/** Name of the metadata that repeats a JobCall's id as a decimal. */
export const CALL_ID_METADATA = "X-CHAIN-CALL-ID";
/** Name of the metadata that repeats a JobCall's service id as a decimal. */
export const SERVICE_ID_METADATA = "X-CHAIN-SERVICE-ID";

/**
 * Turns a JobCall into the bytes that are stored and later streamed to the runner unchanged: everything
 * that is known before the call has an id. Delivery appends the rest (id, lease, attempt). The body's bytes come last.
 */
export type JobCallEncoder = (call: JobCall) => Uint8Array;

/** Names one priced job. */
export interface JobKey {
  /** u64 */
  readonly serviceId: bigint;
  /** u32 */
  readonly jobIndex: number;
}

export function equalJobs(left: JobKey, right: JobKey): boolean {
  return left.serviceId === right.serviceId && left.jobIndex === right.jobIndex;
}

/** Key of one job in maps and logs: `service/job`. */
export function jobKeyText(serviceId: bigint, jobIndex: number): string {
  return `${serviceId}/${jobIndex}`;
}

/** Largest result of a JobCall whose job allows no larger one. A larger result is stored in chunks. */
export const MAX_RESULT_BYTES = 1024 * 1024;
/** Size of a chunk of a result, but of the last one. One write of a few takes milliseconds, and so does one read. */
export const RESULT_CHUNK_BYTES = 256 * 1024;
/** Longest content type of a result. */
export const MAX_CONTENT_TYPE_LENGTH = 255;
/** Strict, because the value becomes a response header for the paying client. */
const MEDIA_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?:;[\x20-\x7e]*)?$/;

/** Returns true if a result may have this content type. */
export function isMediaType(type: string): boolean {
  return type.length <= MAX_CONTENT_TYPE_LENGTH && MEDIA_TYPE.test(type);
}
