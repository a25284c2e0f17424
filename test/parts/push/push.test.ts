import { Webhook } from "standardwebhooks";
import { expect, test, vi } from "vitest";
import type { Store } from "../../../src/store/store.ts";
import { freePort } from "../../helpers/free-port.ts";
import { until } from "../../helpers/until.ts";
import {
  answer,
  type Pushed,
  pushTarget,
  SECRET,
  startPush,
  startTarget,
  watchResults,
} from "./push-harness.ts";

/** Time that a target works on one JobCall: others are out at the same time. */
const WORK_MS = 5;

test("A JobCall is pushed as a signed CloudEvent, and a 2xx answer is its result", async () => {
  const target = await startTarget((pushed) =>
    answer(pushed, 201, "done", { "content-type": "text/x-done" }),
  );
  const pushing = await startPush([{ url: target.url, secrets: [SECRET] }]);
  const results = watchResults(pushing);
  const body = Buffer.from('{"naïve":\r\n1}');
  const callId = await pushing.accept({ body, jobId: 7n });
  await until(pushing.empty);
  expect(target.requests).toHaveLength(1);
  const [{ headers, body: received }] = target.requests as [Pushed];
  expect(received).toEqual(body);
  expect(headers).toMatchObject({
    "content-type": "application/octet-stream",
    "ce-specversion": "1.0",
    "ce-type": "jobgate.job",
    "ce-source": "/services/1",
    "ce-id": String(callId),
    "ce-subject": "7",
    "ce-time": expect.stringMatching(/^20\d\d-.*Z$/),
    "ce-attempt": "1",
    "ce-leasetoken": expect.stringMatching(/./),
    "x-webhook-origin": "webhook",
    "x-webhook-path": "/hooks/test",
    "x-chain-call-id": String(callId),
    "webhook-id": String(callId),
  });
  new Webhook(SECRET).verify(received, headers as Record<string, string>);
  expect(results()).toEqual([
    { callId, result: { body: Buffer.from("done"), contentType: "text/x-done", status: 201 } },
  ]);
});

test("Answers decide: 4xx, 3xx and bad results fail for good, the rest is retried", async () => {
  const elsewhere = await startTarget((pushed) => answer(pushed));
  const target = await startTarget((pushed) => {
    const [status = "", text = "", headers = "{}"] = pushed.body.toString().split("|");
    if (pushed.attempt > 1) answer(pushed);
    else answer(pushed, Number(status), text, JSON.parse(headers) as Record<string, string>);
  });
  const { accept, empty, store } = await startPush([{ url: target.url, concurrency: 1 }]);
  const failing = [
    ["422|no such file\nat line 3", "HTTP 422: no such file"],
    ["404|", "HTTP 404"],
    [`307||{"location":"${elsewhere.url}"}`, "HTTP 307"],
    [`200|${"x".repeat(1024 * 1024 + 1)}`, "its result is larger than 1048576 bytes"],
    [
      '200|x|{"content-type":"no type"}',
      "the content type of its result is not a media type of up to 255 characters",
    ],
    [
      '200|x|{"content-encoding":"gzip"}',
      "its result is compressed, although the request asked for identity",
    ],
  ];
  const failed = new Map<number, string | undefined>();
  for (const [body = "", reason] of failing) failed.set(await accept({ body: Buffer.from(body) }), reason);
  const retried: number[] = [];
  for (const status of [408, 425, 429, 500, 502, 503, 504])
    retried.push(await accept({ body: Buffer.from(`${status}|later`) }));
  await until(empty);
  const { items: dead } = await store.listCalls({ state: "dead", limit: 100 });
  expect(new Map(dead.map(({ callId, reason }) => [callId, reason]))).toEqual(failed);
  for (const callId of retried)
    expect(
      target.requests.filter((pushed) => pushed.callId === callId).map(({ attempt }) => attempt),
    ).toEqual([1, 2]);
  expect(elsewhere.requests).toEqual([]);
});

test("A target can put a JobCall off by Retry-After", async () => {
  const at: number[] = [];
  const target = await startTarget((pushed) => {
    at.push(performance.now());
    if (pushed.attempt === 1) answer(pushed, 503, "", { "retry-after": "1" });
    else answer(pushed);
  });
  const { accept, empty } = await startPush([{ url: target.url }]);
  await accept();
  await until(empty);
  const [first = 0, second = 0] = at;
  // The store's clock is in whole milliseconds.
  expect(second - first).toBeGreaterThan(995);
});

test("A target that is down costs no attempts, and gets everything once it is up", async () => {
  const first = await startTarget((pushed) => answer(pushed), await freePort());
  await first.stop();
  const { accept, empty, store, server } = await startPush([{ url: first.url }], { maxAttempts: 1 });
  await Promise.all(Array.from({ length: 50 }, () => accept()));
  await until(() => server.runners()[0]?.maxInFlight === 0);
  expect((await store.totals()).calls.dead).toBe(0);
  const second = await startTarget((pushed) => answer(pushed), first.port);
  await until(empty);
  expect((await store.totals()).calls.dead).toBe(0);
  expect(new Set(second.requests.map(({ callId }) => callId)).size).toBe(50);
  expect(server.runners()[0]?.maxInFlight).toBe(8);
});

test("A target that refuses everything costs a few JobCalls an attempt, not the queue all of theirs", async () => {
  const target = await startTarget((pushed) => answer(pushed, 500));
  const { accept, store, server } = await startPush([{ url: target.url, concurrency: 4 }], {
    maxAttempts: 1,
  });
  await Promise.all(Array.from({ length: 100 }, () => accept()));
  await until(() => server.runners()[0]?.maxInFlight === 0 && server.runners()[0]?.inFlight === 0);
  expect((await store.totals()).calls.dead).toBeLessThan(20);
});

test("A JobCall that kills its target becomes a dead letter and takes no other with it", async () => {
  const target = await startTarget((pushed) => {
    if (pushed.body.toString() === "poison")
      for (const { response } of target.requests) response.socket?.destroy();
    else setTimeout(() => answer(pushed), WORK_MS);
  });
  const { accept, empty, store } = await startPush([{ url: target.url }], { maxAttempts: 3 });
  const poison = await accept({ body: Buffer.from("poison") });
  await Promise.all(Array.from({ length: 20 }, () => accept()));
  // Long before its lease would have run out.
  await until(empty);
  const { items: dead } = await store.listCalls({ state: "dead", limit: 100 });
  const met = `connection closed by ${new URL(target.url).host} before a whole answer`;
  expect(dead).toEqual([
    expect.objectContaining({ callId: poison, attempts: 3, reason: `max_attempts: ${met}` }),
  ]);
  const timeline = await store.findCallDetails(poison);
  expect(timeline).toMatchObject({ steps: [{ reason: met }, { reason: met }, { reason: met }] });
});

test("The lease is extended while the request runs", async () => {
  const target = await startTarget(() => undefined);
  const { accept, empty, store } = await startPush([{ url: target.url }], { leaseMs: 6_000 });
  const extend = vi.spyOn(store, "extend");
  await accept();
  await until(() => extend.mock.results.length > 0);
  const extended = await (extend.mock.results[0]?.value as ReturnType<Store["extend"]>);
  const [pushed] = target.requests as [Pushed];
  expect(extended.leaseExpiresAt).toBeGreaterThan(Date.parse(String(pushed.headers["ce-leaseexpires"])));
  answer(pushed);
  await until(empty);
  expect(target.requests.map(({ attempt }) => attempt)).toEqual([1]);
});

test("A request whose lease is lost is aborted", async () => {
  const target = await startTarget(() => undefined);
  const { accept, store } = await startPush([{ url: target.url }], { leaseMs: 300 });
  const callId = await accept();
  await until(() => target.requests.length === 1);
  const [{ headers, aborted }] = target.requests as [Pushed];
  await store.fail({ callId, leaseToken: String(headers["ce-leasetoken"]) }, "taken by somebody else");
  await aborted;
});

test("A request that takes longer than timeout_secs is aborted and retried", async () => {
  const target = await startTarget((pushed) => {
    if (pushed.attempt > 1) answer(pushed);
    else pushed.response.writeHead(200).write("half an answer");
  });
  const { accept, empty, store } = await startPush([{ url: target.url, timeoutMs: 300 }]);
  await accept();
  await until(empty);
  // A slow machine may not be in time with the second answer either.
  expect(target.requests.slice(0, 2).map(({ attempt }) => attempt)).toEqual([1, 2]);
  expect((await store.totals()).calls.dead).toBe(0);
  await target.requests[0]?.aborted;
});

test("At shutdown requests may finish; requests that do not are aborted and cost no attempt", async () => {
  const target = await startTarget(() => undefined);
  const pushing = await startPush([{ url: target.url }], { maxAttempts: 1, drainMs: 200 });
  const results = watchResults(pushing);
  const fast = await pushing.accept();
  const slow = await pushing.accept();
  await until(() => target.requests.length === 2);
  pushing.server.endStreams();
  const requestOf = (id: number) => target.requests.find(({ callId }) => callId === id) as Pushed;
  answer(requestOf(fast));
  await until(() => results().length === 1);
  await pushing.server.stop();
  await pushing.push.stop();
  await requestOf(slow).aborted;
  expect((await pushing.store.totals()).calls).toMatchObject({ ready: 1, leased: 0, dead: 0 });
});

test("A changed target gets the JobCalls from then on, and the old one finishes what it has", async () => {
  const before = await startTarget(() => undefined);
  const after = await startTarget((pushed) => answer(pushed));
  const { accept, empty, push, server } = await startPush([{ url: before.url, concurrency: 1 }]);
  const first = await accept();
  const second = await accept();
  await until(() => before.requests.length === 1);
  push.use([pushTarget({ url: after.url })]);
  await until(() => after.requests.length === 1);
  answer(before.requests[0] as Pushed);
  await until(empty);
  expect([before, after].map(({ requests }) => requests.map(({ callId }) => callId))).toEqual([
    [first],
    [second],
  ]);
  await until(() => server.runners().length === 1);
});

test.each([
  ["all jobs", []],
  ["the job", [7n]],
])("A subscribed runner and a target of %s share a job", async (_, jobIds) => {
  const target = await startTarget(() => undefined);
  const { accept, connect } = await startPush([{ url: target.url, concurrency: 4, jobIds }]);
  const stream = await connect().subscribe({ maxInFlight: 4 });
  await Promise.all(Array.from({ length: 4 }, () => accept()));
  await until(() => target.requests.length === 2 && stream.calls.length === 2);
  expect(
    new Set([
      ...target.requests.map(({ callId }) => callId),
      ...stream.calls.map(({ callId }) => Number(callId)),
    ]).size,
  ).toBe(4);
});
