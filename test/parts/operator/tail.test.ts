import { setImmediate as turn } from "node:timers/promises";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { afterEach, expect, onTestFinished, test } from "vitest";
import { EventHub } from "../../../src/core/events.ts";
import { type Event, OperatorService, PaymentState } from "../../../src/gen/jobgate/v1/operator_pb.ts";
import { History } from "../../../src/parts/operator/history.ts";
import { Tail } from "../../../src/parts/operator/tail.ts";
import { AUTHORIZATION_ENDED } from "../../../src/store/rules/charges.ts";
import { eventually } from "../../helpers/eventually.ts";
import { type OperatorUnderTest, startOperator } from "../../helpers/operator.ts";
import { startRunner } from "../../helpers/runner.ts";
import { acceptId, claimOne, paidCall, paidId, paymentIntent } from "../../store/store-fixtures.ts";

let jobgate: OperatorUnderTest | undefined;
afterEach(async () => {
  await jobgate?.stop();
  jobgate = undefined;
});

const start = async (options?: Parameters<typeof startOperator>[0]) => {
  jobgate = await startOperator(options);
  return jobgate;
};

/** Opens a tail that already receives events. `read` returns the next message. */
async function openTail({ url }: OperatorUnderTest) {
  const client = createClient(OperatorService, createConnectTransport({ httpVersion: "1.1", baseUrl: url }));
  const leaving = new AbortController();
  onTestFinished(() => leaving.abort());
  const messages = client.tail({}, { signal: leaving.signal })[Symbol.asyncIterator]();
  const read = async () => {
    const { value, done } = await messages.next();
    if (done === true) throw new Error("The tail has ended");
    return value;
  };
  const first = await read();
  if (first.event !== undefined) throw new Error("The first message has an event");
  return { read, leave: () => leaving.abort() };
}

/** Reads up to an event of this kind. @returns every event read */
async function readUntil(tail: Awaited<ReturnType<typeof openTail>>, kind: Event["what"]["case"]) {
  const events: Event[] = [];
  for (let count = 0; count < 100; count++) {
    const { event } = await tail.read();
    if (event !== undefined) events.push(event);
    if (event?.what.case === kind) return events;
  }
  throw new Error(`no ${kind} among 100 events`);
}
const kinds = (events: readonly Event[]) => events.map(({ what }) => what.case);

test("A tail shows that a JobCall is accepted, delivered and acked, and the runner still gets it", async () => {
  const { store, runnerAddress } = await start();
  const tail = await openTail(jobgate as OperatorUnderTest);
  const runner = await startRunner({
    address: runnerAddress,
    subscriber: "worker-1",
    handle: () => ({ body: Buffer.from("result") }),
  });
  const callId = BigInt(await acceptId(store, { jobId: 30n, body: Buffer.from("x") }));
  const events = await readUntil(tail, "acked");
  expect(kinds(events)).toEqual(["accepted", "delivered", "acked"]);
  expect(events).toMatchObject([
    { callId, what: { value: { origin: "webhook", jobId: 30n, serviceId: 1n } } },
    { callId, what: { value: { attempt: 1, subscriber: "worker-1" } } },
    { callId, what: { value: { resultBytes: 6n } } },
  ]);
  await runner.stop();
  expect(runner.done).toEqual([Number(callId)]);
});

test("A tail shows each decision about a payment once, and then the paid JobCall", async () => {
  const { store } = await start();
  const tail = await openTail(jobgate as OperatorUnderTest);
  const callId = BigInt(await paidId(store, 1));
  await store.settlePayment(paymentIntent(1).key, "{}");
  const failed = paymentIntent(2);
  await store.beginPayment(failed, paidCall());
  await store.leavePaymentUnresolved(failed.key, "no rpc_url");
  await store.failPayment(failed.key, "{}", "expired");
  const seen = [];
  for (let count = 0; count < 4; count++) seen.push((await tail.read()).event);
  expect(seen).toMatchObject([
    { callId, what: { case: "paymentDecided", value: { state: PaymentState.SETTLED } } },
    { callId, what: { case: "accepted", value: { origin: "x402" } } },
    { what: { value: { state: PaymentState.UNRESOLVED, reason: "no rpc_url" } } },
    { what: { value: { state: PaymentState.FAILED, reason: "expired", payer: failed.key.payer } } },
  ]);
});

test("A tail shows what deferred payments are charged, and which are released", async () => {
  const { store } = await start();
  const tail = await openTail(jobgate as OperatorUnderTest);
  const deferred = (number: number) => paymentIntent(number, { amount: "1001", charge: "used" });
  const begin = async (number: number) => {
    const begun = await store.beginPayment(deferred(number), paidCall());
    if (begun.kind !== "begun") throw new Error("expected begun");
    return { callId: BigInt(begun.callId), lease: await claimOne(store) };
  };
  const acked = await begin(1);
  await store.ack(acked.lease, { body: Buffer.from("x"), contentType: "text/plain" }, { units: "7" });
  await store.settlePayment(deferred(1).key, "{}");
  const failed = await begin(2);
  await store.fail(failed.lease, "no ink");
  const ended = await begin(3);
  await store.endAuthorization(Number(ended.callId));
  const events: Event[] = [];
  while (events.length < 6) {
    const { event } = await tail.read();
    if (event?.what.case === "paymentDecided" || event?.what.case === "deadLettered") events.push(event);
  }
  const { payer } = deferred(1).key;
  const charge = { amount: "7", payer, symbol: "USDC" };
  expect(events).toMatchObject([
    { callId: acked.callId, what: { value: { state: PaymentState.SETTLING, ...charge } } },
    { callId: acked.callId, what: { value: { state: PaymentState.SETTLED, ...charge } } },
    { callId: failed.callId, what: { case: "deadLettered" } },
    {
      callId: failed.callId,
      what: { value: { state: PaymentState.RELEASED, amount: "0", reason: "no ink" } },
    },
    { callId: ended.callId, what: { case: "deadLettered" } },
    {
      callId: ended.callId,
      what: { value: { state: PaymentState.RELEASED, reason: AUTHORIZATION_ENDED } },
    },
  ]);
});

test("A tail shows retries and the dead letter after the last one", async () => {
  const { store, runnerAddress } = await start({ maxAttempts: 2 });
  const tail = await openTail(jobgate as OperatorUnderTest);
  const runner = await startRunner({
    address: runnerAddress,
    handle: () => {
      throw new Error("poison");
    },
  });
  const callId = await acceptId(store);
  const events = await readUntil(tail, "deadLettered");
  expect(kinds(events)).toEqual(["accepted", "delivered", "retried", "delivered", "deadLettered"]);
  // Nobody may take it at once.
  await runner.stop();
  await store.retryDeadLetter(callId);
  expect((await tail.read()).event?.what).toMatchObject({ case: "retried", value: { reason: "operator" } });
});

test("A tail shows a dead letter whose last lease expired, and a dropped dead letter", async () => {
  const { store, runnerAddress } = await start({ maxAttempts: 1, leaseMs: 100 });
  const tail = await openTail(jobgate as OperatorUnderTest);
  const runner = await startRunner({ address: runnerAddress, handle: "leave" });
  const callId = await acceptId(store);
  const events = await readUntil(tail, "deadLettered");
  expect(kinds(events)).toEqual(["accepted", "delivered", "deadLettered"]);
  expect(events.at(-1)?.what.value).toMatchObject({ reason: "max_attempts" });
  await store.dropDeadLetter(callId);
  expect((await tail.read()).event?.what.case).toBe("dropped");
  await runner.stop();
});

test("A reader that stops reading keeps no events in memory, and learns exactly how many it missed", async () => {
  const { events } = await start();
  const tail = await openTail(jobgate as OperatorUnderTest);
  const emitted = 10_000;
  for (let callId = 1; callId <= emitted; callId++) {
    events.emit({ at: 0, callId, what: { kind: "retried", reason: String(callId).padEnd(1_500, ".") } });
    // Lets the socket write, as between real events.
    if (callId % 200 === 0) await turn();
  }

  let received = 0;
  let missed = 0n;
  let last = 0n;
  while (BigInt(received) + missed < emitted) {
    const message = await tail.read();
    missed += message.missed;
    if (message.event === undefined) continue;
    received++;
    expect(message.event.callId).toBe(last + message.missed + 1n);
    last = message.event.callId;
  }
  expect(BigInt(received) + missed).toBe(BigInt(emitted));
  // Only buffers of the connection and the newest events are kept, of over 15 MB.
  expect(missed).toBeGreaterThan(emitted / 2);
  events.emit({ at: 0, callId: 7, what: { kind: "dropped" } });
  expect(await tail.read()).toMatchObject({ missed: 0n, event: { callId: 7n } });
});

test("A tail begins with as many of the latest events as it asks for, oldest first", async () => {
  const events = new EventHub();
  const history = new History({ events, counters: () => [], clock: Date.now });
  const tail = new Tail({ events, decimalsOf: () => undefined });
  const leaving = new AbortController();
  onTestFinished(() => leaving.abort());
  onTestFinished(() => history.stop());
  const earlier = async (count: number) => {
    const ids: number[] = [];
    for await (const { event } of tail.read(leaving.signal, () => history.latest(count))) {
      if (event === undefined) break;
      ids.push(Number(event.callId));
    }
    return ids;
  };
  expect(await earlier(10)).toEqual([]);
  for (let callId = 1; callId <= 3; callId++) events.emit({ at: 0, callId, what: { kind: "dropped" } });
  expect(await earlier(0)).toEqual([]);
  expect(await earlier(2)).toEqual([2, 3]);
  for (let callId = 4; callId <= 600; callId++) events.emit({ at: 0, callId, what: { kind: "dropped" } });
  expect(await earlier(2)).toEqual([599, 600]);
  const all = await earlier(1_000);
  expect([all.length, all[0], all.at(-1)]).toEqual([500, 101, 600]);
});

test("Refuses a reader beyond 32 until another one leaves", async () => {
  await start();
  const gateway = jobgate as OperatorUnderTest;
  const tails = await Promise.all(Array.from({ length: 32 }, () => openTail(gateway)));
  const refused = await openTail(gateway).catch((error: unknown) => error);
  expect(ConnectError.from(refused).code).toBe(Code.ResourceExhausted);
  tails[0]?.leave();
  await eventually(async () => (await openTail(gateway)).leave());
  for (const { leave } of tails) leave();
});

test("A silent tail sends empty messages, and still sends an event at once", async () => {
  const events = new EventHub();
  const leaving = new AbortController();
  const messages = new Tail({ events, decimalsOf: () => undefined, maxSilenceMs: 200 }).read(leaving.signal);
  const startedAt = performance.now();
  for (let count = 0; count < 3; count++) {
    const { value } = await messages.next();
    expect([value?.event, value?.missed]).toEqual([undefined, 0n]);
  }
  // The first one is sent at once.
  expect(performance.now() - startedAt).toBeGreaterThan(390);
  const next = messages.next();
  events.emit({ at: 0, callId: 7, what: { kind: "dropped" } });
  expect((await next).value).toMatchObject({ event: { callId: 7n } });
  leaving.abort(new Error("gone"));
  await expect(messages.next()).rejects.toThrow("gone");
});

test("stop() ends open tails with UNAVAILABLE at once", async () => {
  await start();
  const tail = await openTail(jobgate as OperatorUnderTest);
  const ended = tail.read().catch((error: unknown) => error);
  const stopping = jobgate?.stop();
  jobgate = undefined;
  expect(ConnectError.from(await ended).code).toBe(Code.Unavailable);
  await stopping;
});
