import pino from "pino";
import { expect, onTestFinished, test } from "vitest";
import { GatewayError } from "../../src/core/errors.ts";
import { type DeliveryCheck, Dispatcher } from "../../src/delivery/dispatcher.ts";
import { AckMode } from "../../src/gen/jobgate/v1/runner_pb.ts";
import type { Claimed, ClaimedCall, ClaimRequest } from "../../src/store/contract/work-queue.ts";
import type { Store } from "../../src/store/store.ts";
import { until } from "../helpers/until.ts";
import { paidCall, paymentIntent } from "../store/store-fixtures.ts";
import { ackEverything, openStoreForTest, openStoreWithClock, startDelivery } from "./harness.ts";

/** Returns the store with another claim operation. */
function withClaims(store: Store, claim: (request: ClaimRequest) => Promise<Claimed>): Store {
  return { ...store, claim };
}

test("Several subscribers share the work in turn", async () => {
  const { accept, connect } = await startDelivery();
  const streams = [await connect().subscribe(), await connect().subscribe(), await connect().subscribe()];
  for (let index = 0; index < 30; index++) await accept();
  await until(() => streams.every((stream) => stream.calls.length === 10));
  const ids = streams.flatMap((stream) => stream.calls.map((call) => call.callId));
  expect(new Set(ids).size).toBe(30);
});

test("Work goes to a subscriber that has room", async () => {
  const { accept, connect } = await startDelivery();
  const small = await connect().subscribe({ maxInFlight: 1 });
  const large = await connect().subscribe({ maxInFlight: 100 });
  for (let index = 0; index < 20; index++) await accept();
  await until(() => small.calls.length + large.calls.length === 20);
  expect(small.calls).toHaveLength(1);
});

test("A stream that ends gives its work to the next subscriber, as the next attempt", async () => {
  const { accept, connect } = await startDelivery();
  const leaving = await connect().subscribe();
  await accept();
  const first = await leaving.next();
  const staying = await connect().subscribe();
  leaving.cancel();
  expect(await staying.next()).toMatchObject({ callId: first.callId, attempt: 2 });
});

test("A JobCall acked before its stream ended stays done", async () => {
  const { store, accept, connect } = await startDelivery();
  const runner = connect();
  const leaving = await runner.subscribe();
  const staying = await connect().subscribe({ jobIds: [7n] });
  for (let index = 0; index < 10; index++) await accept();
  await until(() => leaving.calls.length + staying.calls.length === 10);
  const acked = Promise.all(leaving.calls.map((call) => runner.ack(call)));
  leaving.cancel();
  const done = (await acked).flat().filter((outcome) => outcome === 1).length;
  const { ready, leased, dead } = (await store.totals()).calls;
  expect(ready + leased + dead).toBe(10 - done);
});

test("A JobCall whose lease ran out goes to the next subscriber, and its slot becomes free", async () => {
  const { accept, connect } = await startDelivery({ leaseMs: 200, maxAttempts: 1_000 });
  const silent = await connect().subscribe({ maxInFlight: 1 });
  const first = await accept();
  await silent.next();
  const runner = connect();
  const working = await runner.subscribe({ maxInFlight: 1 });
  ackEverything(runner, working);
  // The silent stream has room again, and may get it once more.
  const again = await working.next();
  expect(again.callId).toBe(BigInt(first));
  expect(again.attempt).toBeGreaterThan(1);
  working.cancel();
  const later = BigInt(await accept());
  await until(() => silent.calls.some((call) => call.callId === later));
});

test("A JobCall that crashes every runner becomes a dead letter after max_attempts", async () => {
  const { store, endLeases } = await openStoreWithClock();
  const { accept, connect } = await startDelivery({ store, maxAttempts: 3 });
  const poison = await accept();
  for (const attempt of [1, 2, 3]) {
    const crashing = connect();
    const stream = await crashing.subscribe();
    expect(await stream.next()).toMatchObject({ attempt });
    stream.cancel();
  }
  await connect().subscribe();
  await until(async () => (await store.totals()).calls.leased === 0);
  endLeases();
  await until(async () => (await store.totals()).calls.dead === 1);
  expect(await store.findDeadLetter(poison)).toMatchObject({ callId: poison, attempts: 3 });
});

test("A reader that stopped holds few JobCalls, however many it requested, and others get the rest", async () => {
  const { store, server, accept, connect } = await startDelivery();
  const stopped = await connect().subscribe({ maxInFlight: 10_000 });
  stopped.raw.pause();
  const body = Buffer.alloc(32 * 1024);
  for (let batch = 0; batch < 3; batch++)
    await Promise.all(Array.from({ length: 50 }, () => accept({ body })));
  // More than a call writes ahead: some wait for the stream to drain.
  await until(() => (server.runners()[0]?.inFlight ?? 0) > 16);

  const runner = connect();
  const reading = await runner.subscribe();
  ackEverything(runner, reading);
  // The stopped reader gets nothing more, although the other stream is blocked now and then.
  await until(async () => {
    const { ready, leased } = (await store.totals()).calls;
    return ready === 0 && leased === 150 - reading.calls.length;
  });
  const held = server.runners()[0]?.inFlight;
  expect(held).toBe(150 - reading.calls.length);
  // 64 claimed ahead, 4 that wait to be sent, and those that fit into the HTTP/2 window and the client's own buffer.
  expect(held).toBeLessThan(130);
  stopped.cancel();
  await until(async () => (await store.totals()).calls.leased + (await store.totals()).calls.ready === 0);
});

test("JobCalls that were never written to a stopped reader do not count as attempts", async () => {
  const { store, server, accept, connect } = await startDelivery({ maxAttempts: 2 });
  const body = Buffer.alloc(64 * 1024);
  await Promise.all(Array.from({ length: 80 }, () => accept({ body })));
  const stopped = await connect().subscribe({ maxInFlight: 10_000 });
  stopped.raw.pause();
  await until(() => server.runners()[0]?.inFlight === 64);
  stopped.cancel();
  await until(async () => (await store.totals()).calls.leased === 0);
  const runner = connect();
  const reading = await runner.subscribe();
  // A second attempt that counts is the last one: a retry of it makes a dead letter.
  ackEverything(runner, reading, (call) =>
    call.attempt === 2 ? runner.nack({ ...call, outcome: { case: "retry", value: {} } }) : runner.ack(call),
  );
  await until(async () => (await store.totals()).calls.ready + (await store.totals()).calls.leased === 0);
  // Of its 64, one waits to be sent; the HTTP/2 window and the client's buffer hold fewer than 28 of this size.
  const { dead } = (await store.totals()).calls;
  expect(dead).toBeGreaterThanOrEqual(1);
  expect(dead - stopped.calls.length).toBeLessThan(30);
});

test("A reader that resumes gets everything, in order", async () => {
  const { server, accept, connect } = await startDelivery();
  const runner = connect();
  const stream = await runner.subscribe({ maxInFlight: 500 });
  stream.raw.pause();
  const body = Buffer.alloc(16 * 1024);
  await Promise.all(Array.from({ length: 300 }, () => accept({ body })));
  await until(() => (server.runners()[0]?.inFlight ?? 0) >= 64);
  stream.raw.resume();
  await until(() => stream.calls.length === 300);
  const ids = stream.calls.map((call) => call.callId);
  expect(ids).toEqual([...ids].sort((left, right) => Number(left - right)));
});

test("60 subscribers that all reconnect at once get all the work done", async () => {
  const { store, accept, connect } = await startDelivery();
  const storm = async () => {
    const runners = Array.from({ length: 3 }, () => connect());
    const streams = await Promise.all(
      runners.flatMap((runner) => Array.from({ length: 20 }, () => runner.subscribe({ maxInFlight: 4 }))),
    );
    return { runners, streams };
  };
  const first = await storm();
  await Promise.all(Array.from({ length: 120 }, () => accept()));
  await until(() => first.streams.reduce((sum, stream) => sum + stream.calls.length, 0) === 120);
  for (const stream of first.streams) stream.cancel();
  const second = await storm();
  const acked = second.runners.flatMap((runner, index) =>
    second.streams.slice(20 * index, 20 * (index + 1)).map((stream) => ackEverything(runner, stream)),
  );
  await until(() => acked.reduce((sum, { size }) => sum + size, 0) === 120);
  expect((await store.totals()).calls).toMatchObject({ ready: 0, leased: 0, dead: 0 });
});

test("A claim that fails is repeated with backoff until the store works", async () => {
  const store = await openStoreForTest();
  const claimedAt: number[] = [];
  const failing = withClaims(store, async (request) => {
    claimedAt.push(performance.now());
    if (claimedAt.length > 2) return store.claim(request);
    throw new GatewayError("store_unavailable", "The disk is full.");
  });
  const { accept, connect } = await startDelivery({ store: failing });
  const stream = await connect().subscribe();
  await accept();
  await stream.next();
  const [first = 0, second = 0, third = 0] = claimedAt;
  // A timer may end a millisecond early.
  expect(second - first).toBeGreaterThanOrEqual(99);
  expect(third - second).toBeGreaterThanOrEqual(199);
});

test("A claim that found less than it asked for is not repeated without a reason", async () => {
  const store = await openStoreForTest();
  const limits: number[] = [];
  const counting = withClaims(store, (request) => {
    limits.push(request.limit);
    return store.claim(request);
  });
  const { accept, connect } = await startDelivery({ store: counting });
  const startedAt = performance.now();
  const stream = await connect().subscribe({ maxInFlight: 50 });
  for (let accepted = 0; accepted < 20; accepted++) {
    await accept();
    await stream.next();
  }
  // One for the subscriber, one for each new JobCall, and one each second for work that became due.
  const secondsBegun = Math.ceil((performance.now() - startedAt) / 1_000);
  expect(limits.length).toBeLessThanOrEqual(21 + secondsBegun);
  expect(limits[0]).toBe(50);
});

test("A claim begins while its work is being accepted, so that they share one write", async () => {
  const store = await openStoreForTest();
  let accepting = false;
  let claimedWhileAccepting = 0;
  let claimed = 0;
  const watching = withClaims(store, async (request) => {
    if (accepting) claimedWhileAccepting++;
    const calls = await store.claim(request);
    claimed++;
    return calls;
  });
  const { connect } = await startDelivery({ store: watching });
  const stream = await connect().subscribe();
  await until(() => claimed === 1);
  accepting = true;
  const accepted = store.accept({
    origin: "webhook",
    jobId: 1n,
    serviceId: 1n,
    body: Buffer.alloc(1),
    metadata: {},
  });
  await accepted;
  accepting = false;
  await stream.next();
  expect(claimedWhileAccepting).toBeGreaterThanOrEqual(1);
});

test("A stopped reader gets no more than it can take, with ACK_MODE_ON_SEND as well", async () => {
  const { store, server, accept, connect } = await startDelivery();
  const body = Buffer.alloc(16 * 1024);
  await Promise.all(Array.from({ length: 300 }, () => accept({ body })));
  const stopped = await connect().subscribe({ ackMode: AckMode.ON_SEND, maxInFlight: 10_000 });
  stopped.raw.pause();
  await until(() => (server.runners()[0]?.inFlight ?? 0) > 0);
  const other = connect();
  const stream = await other.subscribe({ maxInFlight: 1 });
  // With each of these claims, the stopped reader could be given more.
  for (let acked = 0; acked < 20; acked++) await other.ack(await stream.next());
  expect((await store.totals()).calls.ready).toBeGreaterThan(50);
  stopped.cancel();
});

/** A dispatcher and its store whose time stands still until a test says so, and a stream that takes what `write` lets it. */
async function startStillDelivery({ write, check }: { write?: () => boolean; check?: DeliveryCheck } = {}) {
  const time = { now: Date.now() };
  const clock = () => time.now;
  const store = await openStoreForTest({ clock });
  const sent: ClaimedCall[] = [];
  const dispatcher = (workQueue: Store, { isStarted = true } = {}) => {
    const options = { leaseMs: LEASE_MS, maxAttempts: 10, backoff: { baseMs: 1, maxMs: 1 }, clock, check };
    const logger = pino({ level: "silent" });
    const made = new Dispatcher({ ...options, workQueue, wallClock: clock, logger, observer: undefined });
    onTestFinished(async () => {
      made.endStreams();
      await made.drain(0);
    });
    if (isStarted) made.start();
    return made;
  };
  const sink = {
    write(call: ClaimedCall) {
      sent.push(call);
      return write?.() ?? true;
    },
    endForShutdown: () => undefined,
  };
  const accept = async () => {
    const body = Buffer.from("hello");
    const accepted = await store.accept({ origin: "webhook", jobId: 7n, serviceId: 1n, body, metadata: {} });
    if (accepted.kind !== "accepted") throw new Error(accepted.kind);
    return accepted.callId;
  };
  const request = { subscriber: "runner", maxInFlight: 2, jobIds: [], ackOnSend: false };
  return { time, store, sent, sink, accept, request, dispatcher };
}

const LEASE_MS = 600_000;

test("Before the start nothing is delivered, so a stream that reserves a job gets its JobCalls whenever it was added", async () => {
  const { store, sent, sink, accept, request, dispatcher } = await startStillDelivery();
  const callId = await accept();
  const delivery = dispatcher(store, { isStarted: false });
  const reserved: number[] = [];
  const write = (call: ClaimedCall) => reserved.push(call.callId) > 0;
  delivery.subscribe(request, sink);
  delivery.subscribe({ ...request, jobIds: [7n], reserves: true }, { ...sink, write });
  delivery.start();
  await until(() => reserved.length + sent.length === 1);
  expect([reserved, sent]).toEqual([[callId], []]);
});

test("A JobCall whose lease ended while its claim was answered is not sent under it", async () => {
  const { time, store, sent, sink, accept, request, dispatcher } = await startStillDelivery();
  const callId = await accept();
  let claims = 0;
  const standing = withClaims(store, async (claim) => {
    const claimed = await store.claim(claim);
    if (claims++ === 0) time.now += LEASE_MS;
    return claimed;
  });
  dispatcher(standing).subscribe(request, sink);
  await until(() => sent.length > 0);
  expect(sent).toMatchObject([{ callId, attempt: 2 }]);
});

test("A JobCall whose lease ended while its stream was blocked is not sent under it", async () => {
  const { time, store, sent, sink, accept, request, dispatcher } = await startStillDelivery({
    write: () => false,
  });
  const first = await accept();
  await accept();
  const subscription = dispatcher(store).subscribe(request, sink);
  await until(() => subscription?.inFlight === 2);
  expect(sent).toMatchObject([{ callId: first }]);
  time.now += LEASE_MS;
  subscription?.drained();
  await until(() => sent.length === 2);
  expect(sent[1]).toMatchObject({ attempt: 2 });
});

test("A JobCall whose lease ended while its payer was checked is not sent under it", async () => {
  const admissions: (() => void)[] = [];
  const check = () => new Promise<undefined>((resolve) => admissions.push(() => resolve(undefined)));
  const { time, store, sent, sink, request, dispatcher } = await startStillDelivery({ check });
  await store.beginPayment(paymentIntent(1, { charge: "used" }), paidCall());
  dispatcher(store).subscribe(request, sink);
  await until(() => admissions.length === 1);
  time.now += LEASE_MS;
  admissions[0]?.();
  await until(() => admissions.length === 2);
  admissions[1]?.();
  await until(() => sent.length > 0);
  expect(sent).toMatchObject([{ attempt: 2 }]);
});
