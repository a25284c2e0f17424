import { isMediaType } from "../../core/job-call.ts";
import type { JobResult } from "../../store/contract/work-queue.ts";
import { RUNNER_LIMITS } from "../runner-requests.ts";

/** How one request to a target ended. */
export type PushOutcome =
  | { readonly kind: "done"; readonly result: JobResult | undefined }
  | { readonly kind: "failed"; readonly reason: string; readonly blame: Blame }
  | {
      readonly kind: "retry";
      readonly reason: string;
      /** Default: the backoff. */
      readonly delayMs?: number;
      readonly blame: Blame;
    }
  /** The connection broke after the request was sent: the target may have got it, and may have ended because of it. */
  | { readonly kind: "lost"; readonly reason: string }
  /** No connection: the target has not seen the JobCall. */
  | { readonly kind: "unreached"; readonly reason: string };

/** The part that a failure says something about: this JobCall, or the target as a whole. */
type Blame = "call" | "target";

/** A whole answer, or the part of it that counts. */
export interface PushAnswer {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  readonly retryAfter: string | undefined;
  /** Cut at {@link bodyLimit}. */
  readonly body: Buffer;
  readonly isCut: boolean;
}

/** Way to read answers. */
export interface AnswerReader {
  /** Returns how many bytes of an answer's body are read. */
  bodyLimit(status: number): number;
  /** @param now Unix milliseconds */
  read(answer: PushAnswer, now: number): PushOutcome;
}

/** Only the first line of a refusal's body is read. */
const REFUSAL_BYTES = 4_096;
/** Longest part of a refusal's first line in a reason. */
const REASON_LENGTH = 500;
/** Longest delay that a target can ask for: that of a Nack. */
const MAX_RETRY_AFTER_MS = RUNNER_LIMITS.retryDelayMs;

/** Returns how many bytes of an answer's body are read. */
function bodyLimit(status: number): number {
  return isSuccess(status) ? RUNNER_LIMITS.resultBytes : REFUSAL_BYTES;
}

/** Decides a JobCall's fate. @param now Unix milliseconds */
export function readAnswer(answer: PushAnswer, now: number): PushOutcome {
  const { status } = answer;
  if (isSuccess(status)) return readResult(answer);
  const reason = refusalReason(answer);
  const blame = blameOf(status);
  const isTemporary = status === 408 || status === 425 || status === 429 || status >= 500;
  if (!isTemporary) return { kind: "failed", reason, blame };
  const delayMs = retryAfterMs(answer.retryAfter, now);
  return { kind: "retry", reason, ...(delayMs !== undefined && { delayMs }), blame };
}

export const RUNNER_ANSWERS: AnswerReader = { bodyLimit, read: readAnswer };

/** Parses seconds, or an HTTP date. @returns undefined for anything else, and for a time that is not ahead */
export function retryAfterMs(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  const waitMs = /^\d+$/.test(value) ? Number(value) * 1_000 : httpDate(value) - now;
  return waitMs > 0 ? Math.min(waitMs, MAX_RETRY_AFTER_MS) : undefined;
}

/** Returns Unix milliseconds, or NaN. `Date.parse` alone also reads plain numbers and dates without a zone. */
function httpDate(value: string): number {
  return / GMT$/.test(value) ? Date.parse(value) : Number.NaN;
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

function blameOf(status: number): Blame {
  const isRefused = status < 400 || [401, 403, 404, 405, 429].includes(status);
  return isRefused || status >= 500 ? "target" : "call";
}

function readResult({
  body,
  contentType = "",
  contentEncoding = "identity",
  isCut,
}: PushAnswer): PushOutcome {
  const failed = (reason: string): PushOutcome => ({ kind: "failed", reason, blame: "call" });
  if (isCut) return failed(`its result is larger than ${RUNNER_LIMITS.resultBytes} bytes`);
  if (contentEncoding.toLowerCase() !== "identity")
    return failed("its result is compressed, although the request asked for identity");
  if (contentType === "" && body.byteLength === 0) return { kind: "done", result: undefined };
  if (contentType !== "" && !isMediaType(contentType))
    return failed(
      `the content type of its result is not a media type of up to ${RUNNER_LIMITS.contentTypeLength} characters`,
    );
  return { kind: "done", result: { body, contentType: contentType || "application/octet-stream" } };
}

function refusalReason({ status, body }: PushAnswer): string {
  const [line = ""] = body
    .toString("utf8")
    .trimStart()
    .split(/[\r\n]/, 1);
  const text = line
    .replaceAll(/\p{Cc}/gu, " ")
    .trim()
    .slice(0, REASON_LENGTH);
  return text === "" ? `HTTP ${status}` : `HTTP ${status}: ${text}`;
}
