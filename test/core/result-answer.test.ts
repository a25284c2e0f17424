import { describe, expect, test } from "vitest";
import {
  canCharge,
  hasFailed,
  headersByName,
  headersProblem,
  keptHeaders,
  statusProblem,
} from "../../src/core/result-answer.ts";

describe("A result's status", () => {
  test.each([
    [undefined, false, true],
    [200, false, true],
    [299, false, true],
    [304, false, false],
    [399, false, false],
    [400, true, false],
    [599, true, false],
  ])("%s fails the job: %s, and can be charged: %s", (status, fails, charges) => {
    expect([hasFailed(status), canCharge(status)]).toEqual([fails, charges]);
  });

  test("The status of a result is a final status of HTTP", () => {
    for (const status of [200, 204, 404, 599]) expect(statusProblem(status)).toBeUndefined();
    for (const status of [0, 101, 199, 600, 200.5, Number.NaN])
      expect(statusProblem(status)).toBe(`status is ${status}: expected 200 to 599`);
  });
});

describe("A result's headers", () => {
  test.each<[string, string, string]>([
    ["", "a", '"" is not the name of a header'],
    ["a b", "a", '"a b" is not the name of a header'],
    ["a:", "a", '"a:" is not the name of a header'],
    ["ä", "a", '"ä" is not the name of a header'],
    ["a", "b\r\nset-cookie: c", "the value of a has a character that a header cannot have"],
    ["a", "b\0", "the value of a has a character that a header cannot have"],
    ["a", "\x7f", "the value of a has a character that a header cannot have"],
    ["a", "€", "the value of a has a character that a header cannot have"],
    ["a", "x".repeat(16_384), "the headers have 16385 characters: at most 16384 are allowed"],
  ])("%j: %j is refused", (name, value, problem) => {
    expect(headersProblem([[name, value]])).toBe(problem);
  });

  test("They may have tabs and Latin-1, and be a hundred", () => {
    expect(headersProblem([["a", "b\t\u00ff "]])).toBeUndefined();
    const many = Array.from({ length: 100 }, () => ["a", "b"] as const);
    expect(headersProblem(many)).toBeUndefined();
    expect(headersProblem([...many, ["a", "b"]])).toBe("there are 101 headers: at most 100 are allowed");
  });

  test.each([
    ...["Connection", "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade"],
    ...["Content-Length", "Content-Type", "Date", "Cache-Control", "Set-Cookie", "Alt-Svc"],
    ...["Strict-Transport-Security", "Clear-Site-Data", "WWW-Authenticate", "Access-Control-Allow-Origin"],
    ...["PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE", "X-402-Anything", "X-402", "X-CALL-ID", "X-ACCESS-TOKEN"],
    ...[
      "X-Charged",
      "X-Result-Truncated",
      "Settlement-Overrides",
      "Content-Security-Policy",
      "X-Content-Type-Options",
    ],
  ])("%s is dropped", (name) => {
    expect(keptHeaders([[name, "x"]])).toEqual([]);
  });

  test("Other headers are kept in their order, in lower case, and headers that Connection names are dropped", () => {
    const headers = [
      ["ETag", ' "1" '],
      ["Connection", "close, X-Secret"],
      ["x-secret", "a"],
      ["Link", "</a>"],
      ["Content-Encoding", "gzip"],
      ["link", "</b>"],
      ["Location", "/b"],
    ] as const;
    const kept = keptHeaders(headers);
    expect(kept).toEqual([
      ["etag", '"1"'],
      ["link", "</a>"],
      ["content-encoding", "gzip"],
      ["link", "</b>"],
      ["location", "/b"],
    ]);
    expect(headersByName(kept).link).toEqual(["</a>", "</b>"]);
  });
});
