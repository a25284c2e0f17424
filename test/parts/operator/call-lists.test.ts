import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CALLBACKS } from "../../../src/parts/callbacks/store/module.ts";
import { callJson, type OperatorUnderTest, startOperator } from "../../helpers/operator.ts";
import {
  acceptId,
  claimCalls,
  NO_BACKOFF,
  paidCall,
  paidId,
  paymentIntent,
  webhookCall,
} from "../../store/store-fixtures.ts";

let jobgate: OperatorUnderTest;
let paid: number;
let hooks: number[];
let unpaid: number;

interface Listed {
  readonly calls: readonly { readonly call_id: string; readonly state: string }[];
  readonly next_page_token: string;
}

const ask = async (method: string, request: object = {}) => {
  const { status, answer } = await callJson(jobgate.url, method, request);
  if (status !== 200) throw new Error(`${method}: ${JSON.stringify(answer)}`);
  return answer as unknown as Listed;
};
const idsOf = ({ calls }: Listed) => calls.map(({ call_id }) => Number(call_id));

beforeAll(async () => {
  jobgate = await startOperator();
  const { store } = jobgate;
  paid = await paidId(store, 1);
  hooks = [
    await acceptId(store, { metadata: { "X-WEBHOOK-PATH": "/hooks/github", delivery: "72d3162e" } }),
    await acceptId(store, webhookCall({ jobId: 31n })),
  ];
  const begun = await store.beginPayment(paymentIntent(2), paidCall());
  unpaid = begun.kind === "begun" ? begun.callId : 0;
  await store.failPayment(paymentIntent(2).key, "{}", "cancelled by the payer");
  const [first, second, third] = await claimCalls(store, { subscriber: "worker-1" });
  if (first === undefined || second === undefined || third === undefined) throw new Error("expected three");
  const retry = { delayMs: 0, backoff: NO_BACKOFF, maxAttempts: 3, reason: "out of memory" };
  await store.retry(first, retry);
  await store.ack(second);
  const [again] = await claimCalls(store, { subscriber: "worker-2" });
  if (again !== undefined) await store.ack(again, { body: Buffer.from("done"), contentType: "text/plain" });
  await store.fail(third, "bad input");
});
afterAll(() => jobgate?.stop());

describe("ListCalls", () => {
  test("Lists finished and unfinished calls, newest first, with what was paid for them", async () => {
    const { calls } = await ask("ListCalls");
    expect(calls).toMatchObject([
      {
        call_id: String(hooks[1]),
        state: "CALL_STATE_DEAD",
        origin: "webhook",
        job_id: "31",
        reason: "bad input",
      },
      { call_id: String(hooks[0]), state: "CALL_STATE_DONE", subscriber: "worker-1", attempts: 1, payer: "" },
      {
        call_id: String(paid),
        state: "CALL_STATE_DONE",
        origin: "x402",
        subscriber: "worker-2",
        attempts: 2,
        payer: paymentIntent(1).key.payer,
        amount_text: "3264000 base units of USDC",
        amount_base_units: "3264000",
      },
    ]);
  });

  test("Combines its filters", async () => {
    const upperCase = paymentIntent(1).key.payer.replace("f39fd6", "F39FD6");
    const expected: [request: object, ids: readonly (number | undefined)[]][] = [
      [{ state: "CALL_STATE_DONE" }, [hooks[0], paid]],
      [{ state: "CALL_STATE_DONE", origin: "webhook" }, [hooks[0]]],
      [{ job_id: "31" }, [hooks[1]]],
      [{ job_id: "0" }, []],
      [{ payer: upperCase, service_id: "1" }, [paid]],
      [{ text: "72d3162e" }, [hooks[0]]],
      [{ text: "72d3162e", state: "CALL_STATE_DEAD" }, []],
      [{ since: "2020-01-01T00:00:00Z", until: "2021-01-01T00:00:00Z" }, []],
      [{ since: "2020-01-01T00:00:00Z", origin: "x402" }, [paid]],
    ];
    for (const [request, ids] of expected)
      expect({ request, ids: idsOf(await ask("ListCalls", request)) }).toEqual({ request, ids });
  });

  test("Pages neither repeat nor miss a call, and the last one has no token", async () => {
    const pages: number[][] = [];
    let page_token = "";
    do {
      const page = await ask("ListCalls", { page_size: 2, page_token });
      pages.push(idsOf(page));
      page_token = page.next_page_token;
    } while (page_token !== "");
    expect(pages).toEqual([[hooks[1], hooks[0]], [paid]]);
  });

  test("Refuses filters that nothing can match", async () => {
    const requests = [
      { origin: "email" },
      { payer: "0x12" },
      { text: "x".repeat(201) },
      { state: 99 },
      { page_token: "x" },
    ];
    for (const request of requests) {
      const { status, answer } = await callJson(jobgate.url, "ListCalls", request);
      expect({ request, status, answer }).toMatchObject({
        request,
        status: 400,
        answer: { code: "invalid_argument", message: expect.stringMatching(/: expected /) },
      });
    }
  });
});

describe("GetCall", () => {
  test("Shows payment, deliveries with runner and reason, and result of a paid call", async () => {
    const at = expect.stringMatching(/^20.*Z$/);
    const { payer } = paymentIntent(1).key;
    const call_id = String(paid);
    expect(await ask("GetCall", { call_id: paid })).toMatchObject({
      call: { call_id, state: "CALL_STATE_DONE" },
      payment: { call_id, state: "PAYMENT_STATE_SETTLED", amount_text: "3264000 base units of USDC" },
      metadata: { "X-X402-ORIGIN": "x402" },
      timeline: [
        { at, call_id, payment_begun: { payer, symbol: "USDC", amount_base_units: "3264000" } },
        { at, call_id, payment_decided: { state: "PAYMENT_STATE_SETTLED" } },
        { at, call_id, accepted: { origin: "x402", job_id: "7" } },
        { at, call_id, delivered: { attempt: 1, subscriber: "worker-1" } },
        { at, call_id, retried: { reason: "out of memory" } },
        { at, call_id, delivered: { attempt: 2, subscriber: "worker-2" } },
        { at, call_id, acked: { result_bytes: "4" } },
      ],
    });
  });

  test("Shows how a dead letter came about, its retry by the operator, and that it was dropped", async () => {
    const callId = await jobgate.deadLetter("body", "broken");
    const { store } = jobgate;
    await store.retryDeadLetter(callId);
    const [lease] = await claimCalls(store, { subscriber: "worker-3", jobIds: [70n], maxAttempts: 1 });
    if (lease === undefined) throw new Error("expected the revived call");
    await store.retry(lease, { backoff: NO_BACKOFF, maxAttempts: 1, reason: "still broken" });
    await store.dropDeadLetter(callId);
    const { call, timeline } = (await ask("GetCall", { call_id: callId })) as unknown as {
      call: object;
      timeline: readonly object[];
    };
    expect(call).toMatchObject({ state: "CALL_STATE_DROPPED", reason: "max_attempts: still broken" });
    expect(timeline).toMatchObject([
      { accepted: { origin: "webhook" } },
      { delivered: { attempt: 1 } },
      { dead_lettered: { reason: "broken" } },
      { retried: { reason: "operator" } },
      { delivered: { attempt: 2, subscriber: "worker-3" } },
      { dead_lettered: { reason: "max_attempts: still broken" } },
      { dropped: {} },
    ]);
  });

  test("Shows the callbacks of a call, and of no other", async () => {
    const { store } = jobgate;
    const url = "https://ops.example.com/hook";
    await store
      .of(CALLBACKS)
      .useCallbackEndpoints([{ url: `${url}?key=secret`, events: ["dead_letter", "call.finished"] }]);
    const callId = await jobgate.deadLetter();
    await jobgate.deadLetter();
    await store.of(CALLBACKS).useCallbackEndpoints([]);
    const [ended] = await store.of(CALLBACKS).listCallbacks({ callId, limit: 1 });
    await store
      .of(CALLBACKS)
      .endCallback(ended?.id ?? 0, 0, { kind: "later", delayMs: 60_000, reason: "HTTP 503" });
    const call_id = String(callId);
    const at = expect.stringMatching(/^20.*Z$/);
    const pending = { call_id, state: "CALLBACK_STATE_PENDING", url, happened_at: at, due_at: at };
    expect((await callJson(jobgate.url, "GetCall", { call_id })).answer.callbacks).toMatchObject([
      { ...pending, event: "call.finished", attempts: 1, reason: "HTTP 503" },
      { ...pending, event: "dead_letter", attempts: 0, reason: "" },
    ]);
  });

  test("Is NOT_FOUND for an unknown call, and names the payment of a call that was never queued", async () => {
    for (const call_id of ["99", "0", "18446744073709551615"]) {
      const { status, answer } = await callJson(jobgate.url, "GetCall", { call_id });
      expect([status, answer]).toMatchObject([404, { message: `There is no call with call id ${call_id}.` }]);
    }
    const { status, answer } = await callJson(jobgate.url, "GetCall", { call_id: unpaid });
    const message = `Call ${unpaid} was never queued: its payment failed. GetPayment shows it.`;
    expect([status, answer]).toMatchObject([404, { message }]);
  });
});

test("ListPayments filters by payer, job, service, time and call", async () => {
  const list = async (request: object) => {
    const { answer } = await callJson(jobgate.url, "ListPayments", request);
    return (answer as { payments: { call_id: string }[] }).payments.map(({ call_id }) => Number(call_id));
  };
  const { payer } = paymentIntent(1).key;
  expect(await list({ payer })).toEqual([unpaid, paid]);
  expect(await list({ payer, state: "PAYMENT_STATE_SETTLED" })).toEqual([paid]);
  expect(await list({ payer: `0x${"1".repeat(40)}` })).toEqual([]);
  expect(await list({ job_index: 7 })).toEqual([unpaid, paid]);
  expect(await list({ job_index: 0 })).toEqual([]);
  expect(await list({ service_id: "18446744073709551615", since: "2020-01-01T00:00:00Z" })).toEqual([
    unpaid,
    paid,
  ]);
  expect(await list({ until: "2020-01-01T00:00:00Z" })).toEqual([]);
  expect(await list({ call_id: paid })).toEqual([paid]);
  expect(await list({ call_id: hooks[0] })).toEqual([]);
});
