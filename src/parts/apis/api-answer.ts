import { ERROR_KINDS, type ErrorCode } from "../../core/errors.ts";
import { isMediaType } from "../../core/job-call.ts";
import { headersProblem, keptHeaders, statusProblem } from "../../core/result-answer.ts";
import type { JobResult } from "../../store/contract/work-queue.ts";
import type { HttpAnswer, HttpOutcome } from "../outbound/http-answer.ts";
import type { AnswerHead } from "../outbound/http-client.ts";
import type { RunOutcome } from "../outbound/http-runner.ts";
import type { ApiLinks } from "./api-links.ts";

/** Limits and addresses of a call, on which its outcome depends. */
export interface Asked {
  readonly maxResultBytes: number;
  /** True if a call that broke off may be repeated. Otherwise the outcome of such a call is unknown. */
  readonly mayRepeat: boolean;
  /** True if the call was paid before it was made. */
  readonly isCharged: boolean;
  /** Returns false for a status whose answers may be kept only in part. */
  readonly keepsAll: (status: number) => boolean;
  readonly links: ApiLinks;
  /** Path and query of the request. */
  readonly target: string;
}

/** Statuses with which an API refuses jobgate's own credentials. The buyer cannot do anything about them. */
export const REFUSALS: ReadonlySet<number> = new Set([401, 402, 407]);

/** Reasons of the HTTP client for an answer that it cannot read. */
const NO_HTTP = /^(?:HPE_|HTTPParserError$|UND_ERR_(?:HEADERS_OVERFLOW|RES_CONTENT_LENGTH_MISMATCH)$)/;

/**
 * Decides the outcome of a call by its answer. An answer with any status is final. A call whose connection broke may be
 * made again.
 */
export function readApiOutcome(outcome: HttpOutcome, asked: Asked): RunOutcome {
  const fail = (code: ErrorCode, error: string, status?: number) =>
    done(errorResult(code, error, asked.isCharged, status));
  switch (outcome.kind) {
    case "answered":
      return readAnswer(outcome.answer, asked);
    case "timed_out":
      return fail("api_timeout", `The API sent ${outcome.reason}.`);
    case "invalid":
      return fail("api_refused", "The request cannot be sent to the API.");
    case "unreached":
      return fail("api_unreachable", "The API cannot be reached.", 502);
    case "lost":
      if (asked.mayRepeat)
        return {
          kind: "retry",
          reason: `the connection broke: ${outcome.reason}`,
          delayMs: 0,
          blame: "call",
        };
      if (NO_HTTP.test(outcome.reason))
        return fail("api_broke_off", "The answer of the API cannot be read as HTTP.");
      return outcome.hasBegun
        ? fail("api_broke_off", "The API broke its answer off.")
        : done(outcomeUnknown(asked.isCharged));
  }
}

/**
 * Returns the status and headers that the buyer gets of an answer that has begun; undefined if the buyer gets an error
 * instead.
 */
export function beginningOf(head: AnswerHead, asked: Asked): JobResult | undefined {
  const answer = { ...head, body: Buffer.alloc(0), isCut: false };
  return answerProblem(answer, asked) === undefined ? resultOf(answer, asked) : undefined;
}

/** Returns the result of a call that may have reached the API and must not be repeated. */
export function outcomeUnknown(isCharged: boolean): JobResult {
  const error = "The connection to the API broke before an answer, and the call is not made again.";
  return errorResult("outcome_unknown", error, isCharged);
}

function done(result: JobResult): RunOutcome {
  return { kind: "done", result, charge: undefined };
}

function readAnswer(answer: HttpAnswer, asked: Asked): RunOutcome {
  const problem = answerProblem(answer, asked);
  if (problem !== undefined) return done(problem);
  return { kind: "done", result: resultOf(answer, asked), charge: undefined, hasWrittenBody: true };
}

/** @returns the error that replaces an answer which buyers do not get */
function answerProblem(
  { status, headers, isCut }: Pick<HttpAnswer, "status" | "headers" | "isCut">,
  { maxResultBytes, keepsAll, isCharged }: Asked,
): JobResult | undefined {
  const fail = (code: ErrorCode, error: string) => errorResult(code, error, isCharged);
  if (isCut && keepsAll(status))
    return fail("result_too_large", `The answer of the API is larger than ${maxResultBytes} bytes.`);
  if (REFUSALS.has(status))
    return fail("api_refused", `The API answered ${status}: it does not accept this gateway.`);
  const problem = statusProblem(status) ?? headersProblem(keptHeaders(headers));
  return problem === undefined
    ? undefined
    : fail("api_broke_off", `The answer of the API is not valid: ${problem}.`);
}

/** Returns the answer as a result, without the body that was stored while it arrived. */
function resultOf(
  answer: AnswerHead & Pick<HttpAnswer, "body" | "isCut">,
  { links, target }: Asked,
): JobResult {
  const { status, headers, body, contentType = "", isCut } = answer;
  const kept = links.toPublic(keptHeaders(headers), target);
  if (isCut) kept.push(["x-result-truncated", "true"]);
  return {
    body,
    contentType: isMediaType(contentType) ? contentType : "application/octet-stream",
    status: status === 200 ? undefined : status,
    headers: kept.length === 0 ? undefined : kept,
  };
}

/** Makes the result of a call without an answer from the API. */
export function errorResult(
  code: ErrorCode,
  error: string,
  isCharged: boolean,
  status: number = ERROR_KINDS[code].status,
): JobResult {
  const body = Buffer.from(JSON.stringify({ error, code, charged: isCharged, retryable: false }));
  return { body, contentType: "application/json", status, headers: undefined };
}
