import { isMediaType } from "../../core/job-call.ts";
import { headersProblem, keptHeaders, statusProblem } from "../../core/result-answer.ts";
import { RUNNER_LIMITS } from "../../delivery/runner-requests.ts";
import { type HttpAnswer, type HttpOutcome, isSuccess, retryAfterMs } from "../outbound/http-answer.ts";
import type { Blame, RunOutcome } from "../outbound/http-runner.ts";

/** Most bytes of a refusal's body that are read, because only its first line is used. */
const REFUSAL_BYTES = 4_096;
/** Most characters of a refusal's first line in a reason. */
const REASON_LENGTH = 500;
/** Longest delay that a target can request, which is the longest delay of a Nack. */
const MAX_RETRY_AFTER_MS = RUNNER_LIMITS.retryDelayMs;

/** Returns how many bytes of a response's body are read. @param maxResultBytes limit of a result */
export function bodyLimit(status: number, maxResultBytes: number): number {
  return isSuccess(status) ? maxResultBytes : REFUSAL_BYTES;
}

/** Decides from a target's response how a JobCall ends. @param now Unix milliseconds */
export function readOutcome(outcome: HttpOutcome, now: number): RunOutcome {
  switch (outcome.kind) {
    case "answered":
      return readAnswer(outcome.answer, now);
    case "timed_out":
      return { kind: "retry", reason: outcome.reason, blame: "target" };
    case "invalid":
      return { kind: "failed", reason: outcome.reason, blame: "call" };
    case "lost":
    case "unreached":
      return outcome;
  }
}

function readAnswer(answer: HttpAnswer, now: number): RunOutcome {
  const { status } = answer;
  if (isSuccess(status)) return readResult(answer);
  const reason = refusalReason(answer);
  const blame = blameOf(status);
  const isTemporary = status === 408 || status === 425 || status === 429 || status >= 500;
  if (!isTemporary) return { kind: "failed", reason, blame };
  const delayMs = retryAfterMs(answer.retryAfter, now, MAX_RETRY_AFTER_MS);
  return { kind: "retry", reason, ...(delayMs !== undefined && { delayMs }), blame };
}

function blameOf(status: number): Blame {
  const isRefused = status < 400 || [401, 403, 404, 405, 429].includes(status);
  return isRefused || status >= 500 ? "target" : "call";
}

/**
 * Header in which a target names the status for the client. The status of the response itself must be 2xx, because every other
 * status refuses the JobCall.
 */
const STATUS_HEADER = "x-jobgate-status";

function readResult(answer: HttpAnswer): RunOutcome {
  const { body, contentType = "", contentEncoding = "identity", isCut } = answer;
  const named = answer.headers.find(([name]) => name === STATUS_HEADER)?.[1];
  const status = named === undefined ? answer.status : Number(named);
  const failed = (reason: string): RunOutcome => ({ kind: "failed", reason, blame: "call" });
  if (isCut) return failed(`its result is larger than ${body.byteLength} bytes`);
  if (contentEncoding.toLowerCase() !== "identity")
    return failed("its result is compressed, although the request asked for identity");
  const problem = statusProblem(status) ?? headersProblem(answer.headers);
  if (problem !== undefined) return failed(`its result cannot be sent: ${problem}`);
  if (contentType === "" && body.byteLength === 0 && named === undefined)
    return { kind: "done", result: undefined, charge: undefined };
  if (contentType !== "" && !isMediaType(contentType))
    return failed(
      `the content type of its result is not a media type of up to ${RUNNER_LIMITS.contentTypeLength} characters`,
    );
  const kept = keptHeaders(answer.headers).filter(([name]) => name !== STATUS_HEADER);
  const result = {
    body,
    contentType: contentType || "application/octet-stream",
    status: status === 200 ? undefined : status,
    headers: kept.length === 0 ? undefined : kept,
  };
  return { kind: "done", result, charge: undefined };
}

function refusalReason({ status, body }: HttpAnswer): string {
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
