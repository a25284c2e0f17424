import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { answerFields, type ResultAnswer, resultProblem } from "../core/result-answer.ts";

/** x402 scheme whose offers are ceilings. */
const METERED = "upto";
const MAX_DELAY_MS = 24 * 60 * 60 * 1000;

/** One delivery of a JobCall. */
export interface Job {
  /** ID that is the same for all deliveries of the JobCall, so that a job can be idempotent. */
  readonly callId: number;
  readonly jobId: bigint;
  readonly serviceId: bigint;
  /** The request body. It comes from outside: treat it as untrusted. */
  readonly body: Buffer;
  readonly metadata: Readonly<Record<string, string>>;
  /** 1 on the first delivery. */
  readonly attempt: number;
  /** Aborts when the lease is lost. Another runner may then have the JobCall, and this handler's outcome is dropped. */
  readonly signal: AbortSignal;
  /** Shows the paying client how far the job is. @param percent 0 to 100 */
  progress(percent: number, text?: string): void;
  /**
   * Sets the charge for the job, if its offer is a ceiling. The last charge is used. Default: the whole ceiling. Has no
   * effect on other jobs.
   * @param amount token units, or a share of the ceiling from 0 to 10,000. At most the ceiling is charged
   */
  charge(amount: number | bigint | { readonly basisPoints: number }): void;
}

/** Result of a job. */
export interface Result extends ResultAnswer {
  /** At most 1 MiB. */
  readonly body: string | Uint8Array;
  /** Default: `text/plain; charset=utf-8` for text, `application/octet-stream` for bytes. */
  readonly contentType?: string;
}

/**
 * Does one job. If the handler throws an error, the job is tried again. {@link Fail} makes the JobCall a dead letter.
 */
export type Handler = (job: Job) => Returned | Promise<Returned>;
// biome-ignore lint/suspicious/noConfusingVoidType: a handler may be declared to return Promise<void>
type Returned = Result | string | Uint8Array | undefined | void;

/** Thrown by a handler when no attempt can succeed. The client who paid reads the message. */
export class Fail extends Error {}

/** Thrown by `run` when the runner cannot continue. The message says what to do. */
export class RunnerError extends Error {}

/** Thrown by a handler to get another attempt after the given delay, from 0 to a day. */
export class Retry extends Error {
  readonly delayMs: number | undefined;

  constructor(message: string, { delayMs }: { readonly delayMs?: number } = {}) {
    super(message);
    if (delayMs !== undefined && !(delayMs >= 0 && delayMs <= MAX_DELAY_MS))
      throw new RangeError(`delayMs is ${delayMs}: expected 0 to a day`);
    this.delayMs = delayMs;
  }
}

/**
 * Makes the charge that a job names. @returns undefined for a JobCall whose price is exact @throws RangeError for an invalid
 * amount
 */
export function toCharge(amount: Parameters<Job["charge"]>[0], metadata: Job["metadata"]) {
  const { "X-X402-PAYMENT-SCHEME": scheme, "X-X402-PAYMENT-AMOUNT": ceiling = "0" } = metadata;
  const isShare = typeof amount === "object";
  const value = isShare ? amount.basisPoints : amount;
  if (value < 0 || (isShare && value > 10_000) || !(typeof value === "bigint" || Number.isInteger(value)))
    throw new RangeError(`charge ${value}: expected whole token units, or basisPoints from 0 to 10000`);
  if (scheme !== METERED) return undefined;
  if (isShare) return { amount: { case: "basisPoints", value: amount.basisPoints } } as const;
  const units = BigInt(amount) < BigInt(ceiling) ? amount : ceiling;
  return { amount: { case: "units", value: String(units) } } as const;
}

/** Makes a JSON result. */
export const json = (value: unknown) => ({ body: JSON.stringify(value), contentType: "application/json" });

/** Returns the ack of a handler that returned. @throws Fail when the value is not a result */
export function ackFields(returned: Returned) {
  if (returned === undefined || returned === null) return {};
  const isPlain = typeof returned === "string" || returned instanceof Uint8Array;
  const result: Result = isPlain ? { body: returned } : returned;
  const isText = typeof result.body === "string";
  const { contentType = isText ? "text/plain; charset=utf-8" : "application/octet-stream" } = result;
  const body = typeof result.body === "string" ? Buffer.from(result.body) : result.body;
  if (!(body instanceof Uint8Array))
    throw new Fail("The handler did not return text, bytes, json(value) or nothing.");
  const problem = resultProblem({ ...result, body, contentType });
  if (problem !== undefined) throw new Fail(problem);
  return { result: { body, contentType }, ...answerFields(result) };
}

/** Returns the nack of a handler that threw. */
export function nackFields(error: unknown) {
  const reason = String(error instanceof Error ? error.message : error).slice(0, 4_096);
  if (error instanceof Fail) return { outcome: { case: "fail", value: { reason } } } as const;
  const delay = error instanceof Retry &&
    error.delayMs !== undefined && { delay: durationFromMs(error.delayMs) };
  return { outcome: { case: "retry", value: { reason, ...delay } } } as const;
}
