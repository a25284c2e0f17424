import { expect, test } from "vitest";
import { readApiOutcome } from "../../../src/parts/apis/api-answer.ts";
import { ApiLinks } from "../../../src/parts/apis/api-links.ts";
import type { HttpAnswer } from "../../../src/parts/outbound/http-answer.ts";

const ASKED = {
  maxResultBytes: 10,
  mayRepeat: false,
  isCharged: false,
  keepsAll: (status: number) => status < 300,
  links: new ApiLinks("http://127.0.0.1:8000/v1", "https://shop.example"),
  target: "/items?page=1",
};

function answered(answer: Partial<HttpAnswer>, asked = ASKED) {
  const whole: HttpAnswer = {
    status: 200,
    contentType: "application/json",
    contentEncoding: undefined,
    retryAfter: undefined,
    headers: [],
    body: Buffer.from("{}"),
    isCut: false,
    ...answer,
  };
  return readApiOutcome({ kind: "answered", answer: whole }, asked);
}

/** Status and code of a result that jobgate made. */
function errorOf(outcome: ReturnType<typeof readApiOutcome>) {
  if (outcome.kind !== "done" || outcome.result === undefined) return outcome.kind;
  const { status, body } = outcome.result;
  return [status, JSON.parse(Buffer.from(body).toString()).code];
}

test("An answer is the result, with its status and end-to-end headers", () => {
  expect(
    answered({
      status: 201,
      headers: [
        ["etag", '"1"'],
        ["set-cookie", "a=b"],
        ["payment-response", "forged"],
      ],
    }),
  ).toMatchObject({ kind: "done", result: { status: 201, headers: [["etag", '"1"']] } });
});

test.each([
  ["http://127.0.0.1:8000/v1/items/1", "https://shop.example/items/1"],
  ["http://127.0.0.1:8000/v1", "https://shop.example"],
  ["/v1/items/1?a=b#c", "https://shop.example/items/1?a=b#c"],
  ["items/1", "https://shop.example/items/1"],
  ["?page=2", "https://shop.example/items?page=2"],
  ["http://127.0.0.1:8000/v1evil/1", "http://127.0.0.1:8000/v1evil/1"],
  ["/items/1", "/items/1"],
  ["https://other.example/v1/", "https://other.example/v1/"],
  ["http://[", "http://["],
])("The Location %s becomes %s", (value, expected) => {
  const locationOf = (value: string) => {
    const outcome = answered({ status: 201, headers: [["location", value]] });
    return outcome.kind === "done" ? outcome.result?.headers : undefined;
  };
  expect(locationOf(value)).toEqual([["location", expected]]);
});

test.each([401, 402, 407])("A status of %i is 502 api_refused", (status) => {
  expect(errorOf(answered({ status }))).toEqual([502, "api_refused"]);
});

test("An answer that is too large is 502 result_too_large", () => {
  expect(errorOf(answered({ isCut: true }))).toEqual([502, "result_too_large"]);
});

test("Silence is 504 api_timeout, and no connection 502 api_unreachable", () => {
  expect(errorOf(readApiOutcome({ kind: "timed_out", reason: "nothing for 1 s" }, ASKED))).toEqual([
    504,
    "api_timeout",
  ]);
  expect(errorOf(readApiOutcome({ kind: "unreached", reason: "ECONNREFUSED" }, ASKED))).toEqual([
    502,
    "api_unreachable",
  ]);
});

test("A connection that breaks in mid-answer is api_broke_off, and before it outcome_unknown", () => {
  const lost = (hasBegun: boolean) => readApiOutcome({ kind: "lost", reason: "ECONNRESET", hasBegun }, ASKED);
  expect(errorOf(lost(true))).toEqual([502, "api_broke_off"]);
  expect(errorOf(lost(false))).toEqual([502, "outcome_unknown"]);
});

test.each(["HTTPParserError", "UND_ERR_HEADERS_OVERFLOW", "UND_ERR_RES_CONTENT_LENGTH_MISMATCH"])(
  "An answer that is not HTTP is api_broke_off: %s",
  (reason) => {
    const outcome = readApiOutcome({ kind: "lost", reason, hasBegun: false }, ASKED);
    expect(errorOf(outcome)).toEqual([502, "api_broke_off"]);
  },
);

test("A call that may be made again is made again after a broken connection", () => {
  const outcome = readApiOutcome(
    { kind: "lost", reason: "ECONNRESET", hasBegun: true },
    { ...ASKED, mayRepeat: true },
  );
  expect(outcome).toMatchObject({ kind: "retry", delayMs: 0 });
});

test.each([true, false])("An error in place of an answer says whether it was charged: %s", (isCharged) => {
  const asked = { ...ASKED, isCharged };
  const outcomes = [
    answered({ status: 401 }, asked),
    answered({ isCut: true }, asked),
    answered({ status: 600 }, asked),
    readApiOutcome({ kind: "timed_out", reason: "nothing" }, asked),
    readApiOutcome({ kind: "invalid", reason: "header" }, asked),
    readApiOutcome({ kind: "unreached", reason: "ECONNREFUSED" }, asked),
    readApiOutcome({ kind: "lost", reason: "ECONNRESET", hasBegun: true }, asked),
    readApiOutcome({ kind: "lost", reason: "ECONNRESET", hasBegun: false }, asked),
  ];
  const bodies = outcomes.map((outcome) => outcome.kind === "done" && String(outcome.result?.body));
  expect(bodies.map((body) => JSON.parse(body || "{}"))).toEqual(
    outcomes.map(() => expect.objectContaining({ charged: isCharged, retryable: false })),
  );
});
