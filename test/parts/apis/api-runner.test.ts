import pino from "pino";
import { expect, test } from "vitest";
import { encodeJobCall } from "../../../src/delivery/job-call-codec.ts";
import { ApiProtocol, type ApiSale } from "../../../src/parts/apis/api-runner.ts";
import type { SoldJob } from "../../../src/parts/apis/config.ts";
import { PassedAnswers } from "../../../src/parts/apis/passed-answers.ts";
import { UnchargedCalls } from "../../../src/parts/apis/uncharged-calls.ts";
import type { HttpOutcome } from "../../../src/parts/outbound/http-answer.ts";

const PAYER = "0xabc";
const observations: unknown[] = [];

/** Asks for a delivery of a call to a job that is idempotent or not. */
function ask({
  method,
  attempt,
  forgiven = 0,
  isIdempotent = false,
  isStream = false,
  now = 1_000,
  deferred = true,
  maxRunSecs = 30,
  metadata = {},
  without = "",
  onFailure,
}: {
  method: string;
  attempt: number;
  forgiven?: number;
  isIdempotent?: boolean;
  isStream?: boolean;
  now?: number;
  deferred?: boolean;
  maxRunSecs?: number;
  metadata?: Readonly<Record<string, string>>;
  /** Metadata that the call does not have. */
  without?: string;
  onFailure?: string;
}) {
  const job = {
    serviceId: 1n,
    jobIndex: 7,
    maxRunSecs,
    onFailure,
    runner: {
      kind: "api",
      name: "weather",
      isIdempotent,
      ...(isStream && { stream: { endsWithBuyer: false } }),
    },
  } as SoldJob;
  const api = { name: "weather", url: "http://127.0.0.1:8000", headers: {} } as ApiSale["api"];
  const uncharged = new UnchargedCalls();
  const protocol = new ApiProtocol({
    sale: { api, jobs: [job], publicUrl: "https://shop.example" },
    dispatcher: { maxResultBytes: () => 100_000 },
    uncharged,
    passed: new PassedAnswers(),
    telemetry: { observe: (...observed) => void observations.push(observed) },
    clock: () => now,
    logger: pino({ level: "silent" }),
  });
  const all = {
    ...{ "X-HTTP-METHOD": method, "X-HTTP-PATH": "/items", "X-X402-PAYER": PAYER, traceparent: "00-trace" },
    "X-FORWARDED-FOR": "192.0.2.1",
    ...metadata,
  };
  const encoded = encodeJobCall({
    ...({ origin: "x402", serviceId: 1n, jobId: 7n, body: new Uint8Array() } as const),
    metadata: Object.fromEntries(Object.entries(all).filter(([name]) => name !== without)),
  });
  const lease = {
    callId: 5,
    leaseToken: "token",
    enqueuedAt: 0,
    leaseExpiresAt: 0,
    suspect: false,
    deferred,
  };
  return { asked: protocol.ask({ ...lease, encoded, attempt, forgiven }), uncharged };
}

test.each([
  [{ method: "POST", attempt: 1 }, "request"],
  [{ method: "POST", attempt: 2 }, "decided"],
  [{ method: "POST", attempt: 2, isIdempotent: true }, "request"],
  [{ method: "POST", attempt: 3, isIdempotent: true }, "decided"],
  [{ method: "GET", attempt: 2 }, "request"],
  [{ method: "GET", attempt: 3 }, "decided"],
  [{ method: "GET", attempt: 1, isStream: true }, "request"],
  [{ method: "GET", attempt: 2, isStream: true, isIdempotent: true }, "decided"],
  [{ method: "POST", attempt: 4, forgiven: 3 }, "request"],
])("The delivery %j is a %s", (delivery, kind) => {
  expect(ask(delivery).asked.kind).toBe(kind);
});

test.each(["X-HTTP-PATH", "X-X402-PAYER"])(
  "A call that was accepted for a runner, so that it has no %s, is not sent to the API",
  (without) => {
    expect(ask({ method: "POST", attempt: 1, without }).asked).toMatchObject({
      kind: "decided",
      outcome: { kind: "failed", reason: expect.stringContaining("not sent to the API") },
    });
  },
);

test("A call that a runner may have begun is not sent to the API, and is no call that the API may have had", () => {
  expect(ask({ method: "POST", attempt: 2, without: "X-FORWARDED-FOR" }).asked).toMatchObject({
    kind: "decided",
    outcome: {
      kind: "failed",
      reason: expect.stringContaining("accepted for a runner, which may have begun it"),
    },
  });
});

test("A call that may take a year is bounded by what a timer can wait", () => {
  const { asked } = ask({ method: "GET", attempt: 1, deferred: false, maxRunSecs: 31_536_000 });
  expect(asked.kind === "request" && asked.message.wholeMs).toBe(2 ** 31 - 1);
});

test("A call that is not made again has an unknown outcome, and counts as uncharged", () => {
  const { asked, uncharged } = ask({ method: "POST", attempt: 2 });
  const result = asked.kind === "decided" && asked.outcome.kind === "done" ? asked.outcome.result : undefined;
  expect(result?.status).toBe(502);
  expect(JSON.parse(Buffer.from(result?.body ?? []).toString())).toMatchObject({ code: "outcome_unknown" });
  expect(() => uncharged.check({ name: "weather", unchargedPerMinute: 1 }, PAYER)).toThrow();
});

test.each([
  [{ deferred: true }, true],
  [{ deferred: false }, false],
  [{ deferred: false, onFailure: "refund" }, true],
  [{ deferred: false, onFailure: "refund", metadata: { "X-OPERATOR-ORIGIN": "operator" } }, false],
])("A call that failed and was sold so counts as uncharged: %j %s", (sold, isCounted) => {
  const { asked, uncharged } = ask({ method: "POST", attempt: 1, ...sold });
  if (asked.kind === "request") asked.read({ kind: "timed_out", reason: "nothing" }, 0);
  const check = () => uncharged.check({ name: "weather", unchargedPerMinute: 1 }, PAYER);
  if (isCounted) expect(check).toThrow("without a charge");
  else expect(check).not.toThrow();
});

test("A call that is charged afterwards ends in time, counted from its purchase", () => {
  const { asked } = ask({ method: "GET", attempt: 2, now: 12_000 });
  expect(asked.kind === "request" && asked.message.wholeMs).toBe(18_000);
  const late = ask({ method: "GET", attempt: 2, now: 30_000 }).asked;
  const result = late.kind === "decided" && late.outcome.kind === "done" ? late.outcome.result : undefined;
  expect(result?.status).toBe(504);
});

test.each([true, false])(
  "An error of a call that is charged afterwards (%s) says whether it was charged",
  (deferred) => {
    const { asked } = ask({ method: "POST", attempt: 1, deferred });
    const run = asked.kind === "request" && asked.read({ kind: "timed_out", reason: "nothing" }, 0);
    const late = ask({ method: "POST", attempt: 2, deferred }).asked;
    const outcomes = [run, late.kind === "decided" && late.outcome];
    const bodies = outcomes.map(
      (outcome) => outcome && outcome.kind === "done" && String(outcome.result?.body),
    );
    expect(bodies.map((body) => JSON.parse(body || "{}").charged)).toEqual([!deferred, !deferred]);
  },
);

test("Of an answer without a payment, 64 KiB are read", () => {
  const { asked } = ask({ method: "GET", attempt: 1 });
  const limits = asked.kind === "request" ? [200, 304, 404].map(asked.message.bodyLimit) : [];
  expect(limits).toEqual([100_000, 100_000, 65_536]);
});

test("A call is measured by its status, or by how it ended, and carries its trace", () => {
  const { asked } = ask({ method: "POST", attempt: 1 });
  if (asked.kind !== "request") throw new Error(asked.kind);
  expect(asked.message.headers).toMatchObject({ traceparent: "00-trace", "x-jobgate-attempt": "1" });
  observations.length = 0;
  asked.read({ kind: "timed_out", reason: "nothing" }, 0);
  expect(observations).toEqual([
    [
      "jobgate_api_call_duration_seconds",
      { api: "weather", service_id: "1", job_id: "7", outcome: "timed_out" },
      expect.any(Number),
    ],
  ]);
});

test.each([
  ["$0.004", "$0.016", { units: "4000" }],
  ["$0.004", "$0.0125", { units: "5120" }],
  ["25%", "$0.016", { basisPoints: 2_500 }],
  ["$0.004", undefined, undefined],
])("A charge of %s at a request's price of %s is %j", (charged, price, charge) => {
  const metadata = {
    "X-X402-PAYMENT-SCHEME": "upto",
    "X-X402-PAYMENT-AMOUNT": "16000",
    ...(price !== undefined && { "X-X402-PRICE": price }),
  };
  const { asked } = ask({ method: "GET", attempt: 1, metadata });
  if (asked.kind !== "request") throw new Error(asked.kind);
  const common = { contentType: "text/plain", contentEncoding: undefined, retryAfter: undefined };
  const headers: [string, string][] = [["x-charge", charged]];
  const answer = {
    ...common,
    status: 200,
    headers,
    body: Buffer.from(""),
    isCut: false,
  };
  const run = asked.read({ kind: "answered", answer } satisfies HttpOutcome, 0);
  expect(run.kind === "done" && run.charge).toEqual(charge);
});
