import { expect, test } from "vitest";
import type { HttpAnswer } from "../../../src/parts/outbound/http-answer.ts";
import { readOutcome } from "../../../src/parts/push/push-answer.ts";

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);

function outcomeOf(answer: Partial<Omit<HttpAnswer, "body">> & { readonly body?: string }) {
  const { body = "", ...rest } = answer;
  const none = { contentType: undefined, contentEncoding: undefined, retryAfter: undefined, headers: [] };
  const whole = { status: 200, ...none, isCut: false, ...rest, body: Buffer.from(body) };
  return readOutcome({ kind: "answered", answer: whole }, NOW);
}

test("A temporary refusal is retried after Retry-After, or the backoff", () => {
  expect(outcomeOf({ status: 503, body: "busy\nx", retryAfter: "2" })).toEqual({
    kind: "retry",
    reason: "HTTP 503: busy",
    delayMs: 2_000,
    blame: "target",
  });
  expect(outcomeOf({ status: 425 })).toEqual({ kind: "retry", reason: "HTTP 425", blame: "call" });
});

test("Refusals of each request are blamed on the target, refusals of one input are not", () => {
  const blame = (status: number) => {
    const outcome = outcomeOf({ status });
    return "blame" in outcome ? outcome.blame : undefined;
  };
  for (const status of [301, 401, 403, 404, 405, 429, 500, 503]) expect(blame(status)).toBe("target");
  for (const status of [400, 408, 409, 413, 415, 422]) expect(blame(status)).toBe("call");
});

test("A reason is the first line of a refusal without control characters, and not endless", () => {
  const reason = (body: string) => (outcomeOf({ status: 422, body }) as { reason: string }).reason;
  expect(reason("\n\n a\tb\x1b[31mc\rd")).toBe("HTTP 422: a b [31mc");
  expect(reason("x".repeat(9_999))).toHaveLength("HTTP 422: ".length + 500);
  expect(reason(" \r\n ")).toBe("HTTP 422");
});

test("An answer without body and Content-Type has no result; a body without type is application/octet-stream", () => {
  expect(outcomeOf({ status: 204 })).toEqual({ kind: "done", result: undefined });
  expect(outcomeOf({ body: "x" })).toEqual({
    kind: "done",
    result: { body: Buffer.from("x"), contentType: "application/octet-stream" },
  });
});

test("A result has the answer's status and headers, and X-JOBGATE-STATUS names a status that is not a refusal", () => {
  const headers = [
    ["etag", '"1"'],
    ["set-cookie", "a=b"],
    ["x-jobgate-status", "404"],
  ] as const;
  expect(outcomeOf({ status: 201, body: "x" })).toMatchObject({ kind: "done", result: { status: 201 } });
  expect(outcomeOf({ headers })).toMatchObject({
    kind: "done",
    result: { status: 404, headers: [["etag", '"1"']] },
  });
  expect(outcomeOf({ headers: [["x-jobgate-status", "1e9"]] })).toEqual({
    kind: "failed",
    reason: "its result cannot be sent: status is 1000000000: expected 200 to 599",
    blame: "call",
  });
});
