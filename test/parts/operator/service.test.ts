import { create } from "@bufbuild/protobuf";
import { timestampMs, timestampNow } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { UnknownOutcomeError } from "../../../src/core/errors.ts";
import { DeadLetterStatus, OperatorService, PaymentState } from "../../../src/gen/jobgate/v1/operator_pb.ts";
import { AckRequestSchema } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { version } from "../../../src/node/version.ts";
import { callJson, DEAD_LETTER_JOB, type OperatorUnderTest, startOperator } from "../../helpers/operator.ts";
import { startRunner } from "../../helpers/runner.ts";
import { paidCall, paidId, paymentIntent } from "../../store/store-fixtures.ts";

let jobgate: OperatorUnderTest;
let paid: number[];

const clientOver = (transport: typeof createConnectTransport | typeof createGrpcWebTransport) =>
  createClient(OperatorService, transport({ httpVersion: "1.1", baseUrl: jobgate.url }));

beforeAll(async () => {
  jobgate = await startOperator();
  const { store } = jobgate;
  paid = [];
  for (let number = 1; number <= 5; number++) paid.push(await paidId(store, number));
  const failed = paymentIntent(6);
  await store.beginPayment(failed, paidCall());
  await store.failPayment(failed.key, "{}", "cancelled by the payer");
  const { calls } = await store.claim({
    limit: 1,
    jobIds: [],
    leaseMs: 60_000,
    maxAttempts: 3,
    subscriber: "r",
  });
  for (const call of calls) await store.ack(call);
});
afterAll(() => jobgate?.stop());

const NONE_DEFERRED = { authorized: "0", settling: "0", released: "0", unresolved: "0" };

describe("totals and information", () => {
  test("GetTotals counts by state, in snake_case JSON, and shows that the journal balances", async () => {
    expect(await callJson(jobgate.url, "GetTotals")).toEqual({
      status: 200,
      answer: {
        payments: { ...NONE_DEFERRED, intent: "0", settled: "5", failed: "1" },
        deferred: { ...NONE_DEFERRED, running: "0", settled: "0", failed: "0" },
        calls: { held: "0", ready: "4", leased: "0", dead: "0" },
        paid_calls: { ready: "4", leased: "0", done: "1", dead: "0" },
        kept: "0",
        uncharged: "0",
        paused: [],
        refunds: [],
        channels: [],
        payment_alerts: [],
        callbacks: { pending: "0", sent: "0", dead: "0" },
        held_keys: "0",
        paused_keys: "0",
        balanced: true,
        oldest_ready_at: expect.stringMatching(/^20.*Z$/),
      },
    });
  });

  test("GetInfo returns the version, the uptime and every listener", async () => {
    const { answer } = await callJson(jobgate.url, "GetInfo");
    expect(answer).toEqual({
      version,
      started_at: expect.stringMatching(/^20/),
      uptime: expect.stringMatching(/^\d+(\.\d+)?s$/),
      listeners: [
        { name: "runner", address: jobgate.runnerAddress },
        { name: "operator", address: jobgate.url.slice("http://".length) },
      ],
      store: {
        ...{ writable: true, full: false, reason: "", max_pending: "100000" },
        pending: expect.stringMatching(/^\d+$/),
      },
    });
  });

  test.each([
    ["Connect", createConnectTransport],
    ["gRPC-Web", createGrpcWebTransport],
  ])("%s clients get the same totals over HTTP/1.1", async (_, transport) => {
    const { payments, balanced } = await clientOver(transport).getTotals({});
    expect({ settled: payments?.settled, balanced }).toEqual({ settled: 5n, balanced: true });
  });
});

test("A change that the store neither confirms nor denies is answered with unavailable", async () => {
  const { store } = jobgate;
  const { retryDeadLetter } = store;
  store.retryDeadLetter = () => Promise.reject(new UnknownOutcomeError("the connection was lost"));
  const { answer } = await callJson(jobgate.url, "RetryDeadLetters", { call_ids: ["1"] });
  store.retryDeadLetter = retryDeadLetter;
  expect(answer).toEqual({ code: "unavailable", message: expect.stringContaining("It is not known") });
  const err = { message: "the connection was lost" };
  expect(jobgate.errors).toMatchObject([
    { msg: "operator API call failed", method: "RetryDeadLetters", err },
  ]);
});

describe("payments", () => {
  test("Pages are newest first, without gaps or repeats, and the last one has no token", async () => {
    const client = clientOver(createConnectTransport);
    const pages: bigint[][] = [];
    let pageToken = "";
    do {
      const page = await client.listPayments({ state: PaymentState.SETTLED, pageSize: 2, pageToken });
      pages.push(page.payments.map(({ callId }) => callId));
      pageToken = page.nextPageToken;
    } while (pageToken !== "" && pages.length < 10);
    const [a, b, c, d, e] = paid.map(BigInt);
    expect(pages).toEqual([[e, d], [c, b], [a]]);
  });

  test("ClosePayment needs a verdict, a name and a reason, and refuses a decided payment", async () => {
    const request = { call_id: paid[0], verdict: "PAYMENT_VERDICT_NOT_PAID", by: "ada", note: "why" };
    const refusals = [
      [{ verdict: "PAYMENT_VERDICT_UNSPECIFIED" }, "invalid_argument", "verdict: expected"],
      [{ by: " " }, "invalid_argument", "by: expected"],
      [{ note: "" }, "invalid_argument", "note: expected"],
      [{ note: "x".repeat(2_001) }, "invalid_argument", "note: expected"],
      [{ call_id: "999999" }, "not_found", "There is no payment"],
      [{}, "failed_precondition", "is settled: it cannot be closed as not paid"],
    ] as const;
    for (const [change, code, message] of refusals) {
      const { answer } = await callJson(jobgate.url, "ClosePayment", { ...request, ...change });
      expect(answer).toEqual({ code, message: expect.stringContaining(message) });
    }
  });

  test("A filter returns only payments in its state, with the reason", async () => {
    const { answer } = await callJson(jobgate.url, "ListPayments", { state: "PAYMENT_STATE_FAILED" });
    expect(answer).toMatchObject({
      payments: [{ state: "PAYMENT_STATE_FAILED", reason: "cancelled by the payer" }],
      next_page_token: "",
    });
  });

  test("Refuses a malformed page token and an unknown state", async () => {
    for (const request of [
      { page_token: "-1" },
      { page_token: "1e3" },
      { page_token: "99999999999999999" },
      { state: 9 },
    ]) {
      const { status, answer } = await callJson(jobgate.url, "ListPayments", request);
      expect({ request, status, code: answer.code }).toEqual({
        request,
        status: 400,
        code: "invalid_argument",
      });
    }
  });

  test("GetPayment returns every field of a payment, and NOT_FOUND for an unknown one", async () => {
    const intent = paymentIntent(3);
    const { answer } = await callJson(jobgate.url, "GetPayment", { call_id: paid[2] });
    expect(answer).toMatchObject({
      payment: {
        call_id: String(paid[2]),
        state: "PAYMENT_STATE_SETTLED",
        payer: intent.key.payer,
        nonce: intent.key.nonce,
        amount: intent.amount,
        valid_before: new Date(intent.validBefore * 1_000).toISOString().replace(".000Z", "Z"),
      },
      receipt: intent.receipt,
      price_wei: intent.price,
    });
    for (const call_id of ["0", "999", "9007199254740991", "18446744073709551615"]) {
      const missing = await callJson(jobgate.url, "GetPayment", { call_id });
      expect(missing).toMatchObject({ status: 404, answer: { code: "not_found" } });
    }
  });
});

describe("revenue", () => {
  const HOUR_MS = 3_600_000;
  const { network, asset } = paymentIntent(1).key;

  test("GetRevenue sums up settled payments by token and hour of the last day by default", async () => {
    const { answer } = await callJson(jobgate.url, "GetRevenue");
    const revenue = answer.revenue as { from: string; amount: string; payments: string }[];
    const sum = (of: "amount" | "payments") =>
      revenue.reduce((total, bucket) => total + BigInt(bucket[of]), 0n);
    expect({ amount: sum("amount"), payments: sum("payments") }).toEqual({
      amount: 5n * BigInt(paymentIntent(1).amount),
      payments: 5n,
    });
    for (const bucket of revenue) {
      expect(bucket).toMatchObject({ network, asset, symbol: paymentIntent(1).symbol });
      expect(Date.parse(bucket.from) % HOUR_MS).toBe(0);
    }
  });

  test("GetRevenue leaves out payments settled before the period", async () => {
    const since = new Date(Date.now() + HOUR_MS).toISOString();
    const { answer } = await callJson(jobgate.url, "GetRevenue", { since, bucket: "60s" });
    expect(answer).toEqual({ revenue: [] });
  });

  test.each([
    ["too many buckets", { since: new Date(Date.now() - 2_000_000).toISOString(), bucket: "1s" }],
    ["buckets of less than a second", { bucket: "0.5s" }],
    ["buckets of no length", { bucket: "0s" }],
    ["buckets of negative length", { bucket: "-60s" }],
  ])("Refuses a period of %s", async (_, request) => {
    const { status, answer } = await callJson(jobgate.url, "GetRevenue", request);
    expect({ status, code: answer.code }).toEqual({ status: 400, code: "invalid_argument" });
  });
});

test("ListRunners shows every open stream with its JobCalls in flight", async () => {
  const before = Date.now();
  const first = await startRunner({
    address: jobgate.runnerAddress,
    subscriber: "first",
    jobIds: [501n, 500n],
    maxInFlight: 2,
    handle: "leave",
  });
  const second = await startRunner({ address: jobgate.runnerAddress, subscriber: "second", jobIds: [502n] });
  const call = {
    origin: "webhook",
    jobId: 500n,
    serviceId: 1n,
    body: Buffer.from("x"),
    metadata: {},
  } as const;
  await jobgate.store.accept(call);
  await first.waitFor(1);
  const { runners } = await clientOver(createConnectTransport).listRunners({});
  expect(runners).toMatchObject([
    { subscriber: "first", jobIds: [501n, 500n], inFlight: 1, maxInFlight: 2 },
    { subscriber: "second", jobIds: [502n], inFlight: 0, maxInFlight: 64 },
  ]);
  const since = timestampMs(runners[0]?.connectedSince ?? timestampNow());
  expect(since).toBeGreaterThanOrEqual(before);
  expect(since).toBeLessThanOrEqual(Date.now());

  await second.stop();
  await expect
    .poll(async () => (await clientOver(createConnectTransport).listRunners({})).runners.length)
    .toBe(1);
  const [{ callId, leaseToken } = { callId: 0n, leaseToken: "" }] = first.calls;
  await first.ack(create(AckRequestSchema, { acks: [{ callId, leaseToken }] }));
  const idle = await clientOver(createConnectTransport).listRunners({});
  expect(idle.runners).toMatchObject([{ subscriber: "first", inFlight: 0 }]);
  await first.stop();
});

describe("dead letters", () => {
  test("The list is paged, and GetDeadLetter returns metadata and body", async () => {
    const first = await jobgate.deadLetter("one");
    const second = await jobgate.deadLetter("two", "second reason");
    const client = clientOver(createGrpcWebTransport);
    const page = await client.listDeadLetters({ pageSize: 1 });
    expect(page.deadLetters).toMatchObject([
      { callId: BigInt(second), reason: "second reason", attempts: 1 },
    ]);
    const rest = await client.listDeadLetters({ pageSize: 1, pageToken: page.nextPageToken });
    expect(rest.deadLetters.map(({ callId }) => callId)).toEqual([BigInt(first)]);

    const { deadLetter, metadata, body } = await client.getDeadLetter({ callId: BigInt(first) });
    expect(deadLetter).toMatchObject({ origin: "webhook", jobId: DEAD_LETTER_JOB, serviceId: 1n });
    expect(metadata).toEqual({ "X-WEBHOOK-ORIGIN": "webhook", "X-WEBHOOK-PATH": "/hooks/test" });
    expect(Buffer.from(body).toString()).toBe("one");
    const statuses = await client.dropDeadLetters({ callIds: [BigInt(first), BigInt(second)] });
    expect(statuses.statuses).toEqual([DeadLetterStatus.DONE, DeadLetterStatus.DONE]);
  });

  test("A retried dead letter reaches the runner with a higher attempt", async () => {
    const callId = await jobgate.deadLetter("retry me");
    const runner = await startRunner({ address: jobgate.runnerAddress, jobIds: [DEAD_LETTER_JOB] });
    const { answer } = await callJson(jobgate.url, "RetryDeadLetters", { call_ids: [callId, 999_999] });
    const statuses = ["DEAD_LETTER_STATUS_DONE", "DEAD_LETTER_STATUS_NOT_FOUND"];
    expect(answer).toEqual({ statuses, count: "1", next_page_token: "" });
    const [call] = await runner.waitFor(1);
    expect(call).toMatchObject({ callId: BigInt(callId), attempt: 2 });
    await runner.stop();
    expect(await jobgate.store.findDeadLetter(callId)).toBeUndefined();
  });

  test("A dropped dead letter is gone", async () => {
    const callId = await jobgate.deadLetter();
    const drop = () => callJson(jobgate.url, "DropDeadLetters", { call_ids: [callId] });
    expect((await drop()).answer.statuses).toEqual(["DEAD_LETTER_STATUS_DONE"]);
    expect((await drop()).answer.statuses).toEqual(["DEAD_LETTER_STATUS_NOT_FOUND"]);
    expect((await jobgate.store.totals()).calls.dead).toBe(0);
  });

  test("Refuses more than 1000 IDs at once, and changes nothing", async () => {
    const callId = await jobgate.deadLetter();
    const callIds = [callId, ...Array.from({ length: 1_000 }, (_, index) => 1_000_000 + index)].map(BigInt);
    const refused = await clientOver(createConnectTransport)
      .dropDeadLetters({ callIds })
      .catch((error: unknown) => error);
    expect(ConnectError.from(refused).code).toBe(Code.InvalidArgument);
    expect(await jobgate.store.findDeadLetter(callId)).toBeDefined();
    await jobgate.store.dropDeadLetter(callId);
  });
});
