import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { GatewayError, UnknownOutcomeError } from "../../../src/core/errors.ts";
import { AckMode, LeaseStatus } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { named, openStoreForTest, type RunnerMessageInit } from "../../delivery/harness.ts";
import { until } from "../../helpers/until.ts";
import { startWorkDelivery } from "./harness.ts";

const { DONE, INVALID_ARGUMENT, LEASE_LOST, NOT_FOUND } = LeaseStatus;
const retryAfter = (seconds: bigint) => ({ case: "retry", value: { delay: { seconds } } }) as const;
const RETRY_NOW = retryAfter(0n);
const UNIT = { amount: { case: "units", value: "1" } } as const;

test("JobCalls of one turn come in one message, and one message finishes them", async () => {
  const { store, accept, connect } = await startWorkDelivery();
  for (let index = 0; index < 20; index++) await accept({ body: Buffer.from(`job ${index}`) });
  const stream = await connect().work();
  await until(() => stream.calls.length === 20);
  expect(stream.messages).toHaveLength(1);
  expect(stream.calls.map(({ body }) => Buffer.from(body).toString())).toEqual(
    Array.from({ length: 20 }, (_, index) => `job ${index}`),
  );
  const result = { body: Buffer.from("done"), contentType: "text/plain" };
  const statuses = await stream.ask({ acks: stream.calls.map((call) => ({ ...named(call), result })) });
  expect(statuses).toMatchObject({ acks: Array(20).fill(DONE), nacks: [], extends: [], errorCode: 0 });
  expect((await store.totals()).calls).toMatchObject({ ready: 0, leased: 0, dead: 0 });
});

test("One message may ack, nack and extend, and each lease has its own status", async () => {
  const { store, accept, connect } = await startWorkDelivery();
  for (let index = 0; index < 4; index++) await accept();
  const stream = await connect().work({ maxInFlight: 4 });
  const [acked, failed, retried, extended] = await Promise.all([1, 2, 3, 4].map(() => stream.next()));
  if (!acked || !failed || !retried || !extended) throw new Error("Fewer than four JobCalls");
  const statuses = await stream.ask({
    acks: [named(acked), { ...named(acked), leaseToken: "another" }, { callId: 0n }, { callId: 2n ** 60n }],
    nacks: [
      { ...named(failed), outcome: { case: "fail", value: { reason: "Bad input" } } },
      { ...named(retried), outcome: RETRY_NOW },
    ],
    extends: [
      { ...named(extended), progress: { percent: 40, text: "Baking" } },
      { callId: extended.callId, leaseToken: "another" },
    ],
    lease: { seconds: 120n },
  });
  expect(statuses).toMatchObject({
    acks: [DONE, NOT_FOUND, NOT_FOUND, NOT_FOUND],
    nacks: [DONE, DONE],
    extends: [DONE, LEASE_LOST],
    errorCode: 0,
  });
  expect(await store.findDeadLetter(Number(failed.callId))).toMatchObject({ reason: "Bad input" });
  expect(await stream.next()).toMatchObject({ callId: retried.callId, attempt: 2 });
});

test.each<[string, RunnerMessageInit, string]>([
  ["ack with a content type that is none", { acks: [{ result: { contentType: "no type" } }] }, "media type"],
  ["ack with a result of 2 MiB", { acks: [{ result: { body: Buffer.alloc(2 ** 21) } }] }, "2097152 bytes"],
  ["ack with an empty charge", { acks: [{ charge: {} }] }, "charge is empty"],
  ["ack that charges for a webhook", { acks: [{ charge: UNIT }] }, "not metered"],
  ["nack with a delay below 0", { nacks: [{ outcome: retryAfter(-1n) }] }, "retry.delay"],
  ["extend with progress of 101 %", { extends: [{ progress: { percent: 101 } }] }, "progress.percent"],
  ["extend with a charge for a webhook", { extends: [{ chargeSoFar: UNIT }] }, "not metered"],
])("An %s changes nothing, and the other parts of its message take effect", async (_, bad, problem) => {
  const { accept, connect } = await startWorkDelivery();
  await accept();
  await accept();
  const stream = await connect().work();
  const [refused, good] = [named(await stream.next()), named(await stream.next())];
  const { acks = [], nacks = [], extends: extensions = [] } = bad;
  const statuses = await stream.ask({
    acks: [...acks.map((ack) => ({ ...ack, ...refused })), good],
    nacks: nacks.map((nack) => ({ ...nack, ...refused })),
    extends: extensions.map((extension) => ({ ...extension, ...refused })),
  });
  expect([statuses.acks, statuses.nacks, statuses.extends]).toEqual([
    [...acks.map(() => INVALID_ARGUMENT), DONE],
    nacks.map(() => INVALID_ARGUMENT),
    extensions.map(() => INVALID_ARGUMENT),
  ]);
  expect(statuses).toMatchObject({ errorCode: 0, errorMessage: expect.stringContaining(problem) });
  expect(statuses.errorMessage).toContain(`JobCall ${refused.callId}: `);
  expect((await stream.ask({ acks: [refused, good] })).acks).toEqual([DONE, NOT_FOUND]);
});

test.each<[string, RunnerMessageInit]>([
  ["a lease of no length", { lease: { seconds: 0n } }],
  ["more than 10,000 leases", { extends: Array.from({ length: 10_000 }, () => ({})) }],
])("A message with %s changes nothing, and the stream goes on", async (_, bad) => {
  const { accept, connect } = await startWorkDelivery();
  await accept();
  const stream = await connect().work();
  const acks = [named(await stream.next())];
  const statuses = await stream.ask({ acks, ...bad });
  expect(statuses).toMatchObject({ errorCode: status.INVALID_ARGUMENT, acks: [], nacks: [], extends: [] });
  expect(statuses.errorMessage).not.toBe("");
  expect((await stream.ask({ acks })).acks).toEqual([DONE]);
});

test.each([
  ["cannot write", new GatewayError("store_unavailable", "It is away."), []],
  [
    "is lost with",
    new UnknownOutcomeError("lost"),
    [{ err: { message: "lost" }, peer: expect.stringContaining("127.0.0.1:") }],
  ],
])("A message that the store %s is answered with UNAVAILABLE, and the stream goes on", async (...row) => {
  const [, error, logged] = row;
  const store = await openStoreForTest();
  let isAway = true;
  const { accept, connect, errors } = await startWorkDelivery({
    store: {
      ...store,
      ack: (lease, result) => (isAway ? Promise.reject(error) : store.ack(lease, result)),
    },
  });
  await accept();
  const stream = await connect().work();
  const acks = [named(await stream.next())];
  expect(await stream.ask({ acks })).toMatchObject({ errorCode: status.UNAVAILABLE, acks: [] });
  expect(errors).toMatchObject(logged);
  isAway = false;
  expect((await stream.ask({ acks })).acks).toEqual([DONE]);
});

test("max_in_flight changes on an open stream, and 0 pauses it", async () => {
  const { server, accept, connect } = await startWorkDelivery();
  const stream = await connect().work({ maxInFlight: 5 }, { maxInFlight: 0 });
  const other = await connect().work({ maxInFlight: 1 });
  for (let index = 0; index < 20; index++) await accept();
  await other.next();
  const inFlight = () => server.runners()[0]?.inFlight;
  expect(inFlight()).toBe(0);
  stream.send({ maxInFlight: 3 });
  await until(() => stream.calls.length === 3);
  stream.send({ maxInFlight: 1 });
  const acks = stream.calls.map(named);
  await stream.ask({ acks });
  await until(() => stream.calls.length === 4);
  expect(server.runners()[0]).toMatchObject({ inFlight: 1, maxInFlight: 1 });
  stream.send({ maxInFlight: 2 ** 32 - 1 });
  await until(() => stream.calls.length === 19);
  expect(server.runners()[0]?.maxInFlight).toBe(10_000);
});

test("A message holds at most 256 JobCalls and 1 MiB", async () => {
  const { accept, connect } = await startWorkDelivery();
  const sizes = [...Array<number>(300).fill(10), ...Array<number>(5).fill(400 * 1024), 1_200 * 1024, 10];
  for (const size of sizes) await accept({ body: Buffer.alloc(size) });
  const stream = await connect().work({ maxInFlight: 1_000 });
  await until(() => stream.calls.length === sizes.length);
  expect(stream.calls.map(({ body }) => body.byteLength)).toEqual(sizes);
  for (const { jobCalls } of stream.messages) {
    expect(jobCalls.length).toBeLessThanOrEqual(256);
    const bytes = jobCalls.reduce((sum, { body }) => sum + body.byteLength, 0);
    if (jobCalls.length > 1) expect(bytes).toBeLessThan(1024 * 1024);
  }
});

test("A runner that half-closes gets its statuses, OK, and its unfinished JobCalls go to the next", async () => {
  const { accept, connect } = await startWorkDelivery();
  await accept();
  await accept();
  const leaving = await connect().work();
  const [done, left] = [await leaving.next(), await leaving.next()];
  const staying = await connect().work();
  const answer = leaving.ask({ acks: [named(done)] });
  leaving.raw.end();
  expect((await answer).acks).toEqual([DONE]);
  expect((await leaving.ended).code).toBe(status.OK);
  expect(await staying.next()).toMatchObject({ callId: left.callId, attempt: 2 });
});

test("A JobCall on its way to a runner that paused and half-closed costs it no attempt", async () => {
  const { store, accept, connect } = await startWorkDelivery({ maxAttempts: 1 });
  await accept();
  const leaving = await connect().work();
  const { callId } = await leaving.next();
  leaving.send({ maxInFlight: 0 });
  leaving.raw.end();
  expect((await leaving.ended).code).toBe(status.OK);
  const staying = await connect().work();
  expect(await staying.next()).toMatchObject({ callId, attempt: 2 });
  expect((await store.totals()).calls).toMatchObject({ dead: 0 });
});

test("Leases of a stream are finished over unary calls and other streams", async () => {
  const { accept, connect } = await startWorkDelivery();
  await accept();
  await accept();
  const runner = connect();
  const stream = await runner.work();
  const [first, second] = [await stream.next(), await stream.next()];
  expect(await runner.ack(first)).toEqual([DONE]);
  const other = await connect().work({}, { acks: [named(second)], sequence: 2n ** 64n - 1n });
  await until(() => other.messages.length === 1);
  expect(other.messages[0]?.statuses).toMatchObject([{ sequence: 2n ** 64n - 1n, acks: [DONE] }]);
});

test("With ACK_MODE_ON_SEND a JobCall is done once written", async () => {
  const { store, accept, connect } = await startWorkDelivery();
  const stream = await connect().work({ ackMode: AckMode.ON_SEND });
  for (let index = 0; index < 5; index++) await accept();
  await until(() => stream.calls.length === 5);
  await until(async () => (await store.totals()).calls.leased === 0);
  expect((await store.totals()).calls).toMatchObject({ ready: 0, dead: 0 });
});

test("At shutdown a stream stays open until its last lease is finished", async () => {
  const { server, accept, connect } = await startWorkDelivery({ drainMs: 60_000 });
  await accept();
  await accept();
  const stream = await connect().work();
  const [first, second] = [await stream.next(), await stream.next()];
  const idle = await connect().work();
  const stopped = server.stop();
  expect((await idle.ended).code).toBe(status.UNAVAILABLE);
  await accept();
  expect((await stream.ask({ acks: [named(first)] })).acks).toEqual([DONE]);
  expect((await stream.ask({ nacks: [{ ...named(second), outcome: RETRY_NOW }] })).nacks).toEqual([DONE]);
  expect((await stream.ended).code).toBe(status.UNAVAILABLE);
  await stopped;
  expect(stream.calls).toHaveLength(2);
});

test("A shutdown ends a stream after drain_secs, and gives back its JobCalls without counting the attempt", async () => {
  const { store, server, accept, connect } = await startWorkDelivery({ drainMs: 50, maxAttempts: 1 });
  await accept();
  const stream = await connect().work();
  await stream.next();
  await server.stop();
  expect((await stream.ended).code).toBe(status.UNAVAILABLE);
  expect((await store.totals()).calls).toMatchObject({ ready: 1, leased: 0, dead: 0 });
});

test("A stream that is refused or breaks the protocol ends with its status", async () => {
  const { connect } = await startWorkDelivery({ tokens: ["secret"] });
  const unknown = connect().work();
  await expect(unknown).rejects.toThrow("The runner's token is required");
  const runner = connect({ token: "secret" });
  await expect(runner.work({ subscriber: "x".repeat(129) })).rejects.toThrow("129 characters in subscriber");
  const stream = await runner.work();
  stream.send({ subscribe: {} });
  expect(await stream.ended).toMatchObject({ code: status.INVALID_ARGUMENT });
});

test("A stream that names a job which another stream reserves is refused", async () => {
  const { connect, server } = await startWorkDelivery();
  const request = { subscriber: "own", maxInFlight: 1, jobIds: [7n], ackOnSend: false, reserves: true };
  server.dispatcher.subscribe(request, { write: () => true, endForShutdown: () => undefined });
  await expect(connect().work({ jobIds: [7n] })).rejects.toThrow("job_ids has 7, a job of own");
  await connect().work({ jobIds: [8n] });
});

test("A stream ends with its last JobCall once another stream reserves a job that it names", async () => {
  const { accept, connect, server } = await startWorkDelivery();
  const stream = await connect().work({ jobIds: [7n, 8n], maxInFlight: 1 });
  await accept({ jobId: 8n });
  await until(() => stream.calls.length === 1);
  const request = { subscriber: "own", maxInFlight: 1, jobIds: [7n], ackOnSend: false, reserves: true };
  server.dispatcher.subscribe(request, { write: () => true, endForShutdown: () => undefined });
  await accept({ jobId: 8n });
  expect((await stream.ask({ acks: stream.calls.map(named) })).acks).toEqual([DONE]);
  expect(await stream.ended).toMatchObject({
    code: status.INVALID_ARGUMENT,
    details: expect.stringContaining("job_ids has 7, a job of own"),
  });
  expect(stream.calls).toHaveLength(1);
});
