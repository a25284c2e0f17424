import { once } from "node:events";
import { connect as connectHttp2, type IncomingHttpHeaders } from "node:http2";
import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { expect, onTestFinished, test } from "vitest";
import { LeaseStatus, RunnerMessageSchema } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { named, type RunnerMessageInit } from "../../delivery/harness.ts";
import { until } from "../../helpers/until.ts";
import { startWorkDelivery } from "./harness.ts";

const { DONE, LEASE_LOST, NOT_FOUND } = LeaseStatus;

/** Puts gRPC's header before a message. */
function framed(message: Uint8Array, isCompressed = false): Buffer {
  const header = Buffer.alloc(5);
  header.writeUInt8(isCompressed ? 1 : 0);
  header.writeUInt32BE(message.byteLength, 1);
  return Buffer.concat([header, message]);
}

function encoded(init: RunnerMessageInit): Buffer {
  return framed(toBinary(RunnerMessageSchema, create(RunnerMessageSchema, init)));
}

/** Opens a Work call on a connection of its own, which sends bytes as they are. */
function openRaw(address: string, headers: IncomingHttpHeaders = {}) {
  const session = connectHttp2(`http://${address}`);
  onTestFinished(() => session.destroy());
  const stream = session.request({
    ":method": "POST",
    ":path": "/jobgate.v1.RunnerService/Work",
    "content-type": "application/grpc",
    "grpc-encoding": "gzip",
    te: "trailers",
    ...headers,
  });
  stream.on("error", () => undefined);
  let trailers: IncomingHttpHeaders = {};
  stream.on("response", (head) => {
    trailers = head;
  });
  stream.on("trailers", (received) => {
    trailers = received;
  });
  const ended = once(stream, "end").then(() => Number(trailers["grpc-status"]));
  ended.catch(() => undefined);
  return { session, stream, ended };
}

const subscribe = encoded({ subscribe: {} });
const bomb = gzipSync(Buffer.alloc(16 * 1024 * 1024 + 1));
const tooLarge = Buffer.from([0, 0x01, 0, 0, 1]);

test.each<[string, Buffer, status]>([
  ["is garbage", framed(Buffer.from([0xff, 0xff, 0xff])), status.INVALID_ARGUMENT],
  ["has no subscribe", encoded({ maxInFlight: 5 }), status.INVALID_ARGUMENT],
  ["has acks and no subscribe", encoded({ acks: [{ callId: 1n }] }), status.INVALID_ARGUMENT],
  ["is empty", framed(Buffer.alloc(0)), status.INVALID_ARGUMENT],
  ["announces more than 16 MiB", tooLarge, status.RESOURCE_EXHAUSTED],
  ["is a compressed bomb", framed(bomb, true), status.RESOURCE_EXHAUSTED],
])("A stream whose first message %s ends at once", async (_, bytes, code) => {
  const { address } = await startWorkDelivery();
  const { stream, ended } = openRaw(address);
  stream.resume().write(bytes);
  expect(await ended).toBe(code);
});

test.each<[string, Buffer, status]>([
  ["garbage", framed(Buffer.from([0x0a, 0xff])), status.INVALID_ARGUMENT],
  ["a second subscribe", subscribe, status.INVALID_ARGUMENT],
  ["a message of more than 16 MiB", tooLarge, status.RESOURCE_EXHAUSTED],
  ["a compressed bomb", framed(bomb, true), status.RESOURCE_EXHAUSTED],
])("An open stream that sends %s ends, and its work goes to the next", async (_, bytes, code) => {
  const { address, accept, connect } = await startWorkDelivery();
  await accept();
  const { stream, ended } = openRaw(address);
  stream.write(subscribe);
  await once(stream, "data");
  stream.resume().write(bytes);
  expect(await ended).toBe(code);
  const next = await connect().work();
  expect(await next.next()).toMatchObject({ attempt: 2 });
});

test("A call without a message is refused", async () => {
  const { address } = await startWorkDelivery();
  const { stream, ended } = openRaw(address);
  stream.resume().end();
  expect(await ended).toBe(status.INVALID_ARGUMENT);
});

test("A message cut by a lost connection changes nothing", async () => {
  const { address, accept, connect } = await startWorkDelivery();
  const callId = BigInt(await accept());
  const holder = await connect().work();
  const acks = [named(await holder.next())];
  const { session, stream } = openRaw(address);
  stream.write(subscribe);
  await once(stream, "response");
  const message = encoded({ acks });
  await new Promise((resolve) => stream.write(message.subarray(0, -1), resolve));
  session.destroy();
  expect((await holder.ask({ acks })).acks).toEqual([DONE]);
  expect(holder.calls.map((call) => call.callId)).toEqual([callId]);
});

test("Another's lease token harms nothing", async () => {
  const { accept, connect } = await startWorkDelivery();
  await accept();
  await accept();
  const holder = await connect().work();
  const [first, second] = [await holder.next(), await holder.next()];
  const attacker = await connect().work({ jobIds: [1n] });
  const stolen = { callId: first.callId, leaseToken: second.leaseToken };
  const fail = { case: "fail", value: { reason: "" } } as const;
  const statuses = await attacker.ask({
    acks: [stolen],
    nacks: [{ ...stolen, outcome: fail }],
    extends: [stolen],
  });
  expect(statuses).toMatchObject({ acks: [LEASE_LOST], nacks: [LEASE_LOST], extends: [LEASE_LOST] });
  expect((await holder.ask({ acks: [first, second].map(named) })).acks).toEqual([DONE, DONE]);
});

test("An ack that comes again takes effect once, and a sequence used again is answered again", async () => {
  const { store, accept, connect } = await startWorkDelivery();
  await accept();
  const stream = await connect().work();
  const acks = [named(await stream.next())];
  for (let time = 0; time < 3; time++) stream.send({ sequence: 7n, acks: [...acks, ...acks] });
  await until(() => stream.messages.flatMap(({ statuses }) => statuses).length === 3);
  const statuses = stream.messages.flatMap((message) => message.statuses);
  expect(statuses.map(({ sequence }) => sequence)).toEqual([7n, 7n, 7n]);
  const outcomes = statuses.flatMap((answer) => answer.acks);
  expect(outcomes.filter((outcome) => outcome === DONE)).toHaveLength(1);
  expect(outcomes.filter((outcome) => outcome === NOT_FOUND)).toHaveLength(5);
  expect((await store.totals()).calls).toMatchObject({ ready: 0, leased: 0, dead: 0 });
});

test("Each of 500 tiny messages is answered once", async () => {
  const { connect } = await startWorkDelivery();
  const stream = await connect().work();
  const sequences = Array.from({ length: 500 }, (_, index) => BigInt(index));
  for (const sequence of sequences) stream.send({ sequence, acks: [{ callId: 0n }] });
  const count = () => stream.messages.reduce((sum, { statuses }) => sum + statuses.length, 0);
  await until(() => count() >= sequences.length);
  const answered = stream.messages.flatMap(({ statuses }) => statuses.map(({ sequence }) => sequence));
  expect(answered.sort((left, right) => Number(left - right))).toEqual(sequences);
});

test("A runner that acks without end and reads nothing is read no more, until it reads", async () => {
  const { address } = await startWorkDelivery();
  const { session, stream, ended } = openRaw(address);
  stream.write(subscribe);
  await once(stream, "response");
  const message = encoded({
    sequence: 1n,
    acks: Array.from({ length: 1_000 }, () => ({ leaseToken: "unknown" })),
  });
  const count = 240;
  let sent = 0;
  const send = () => {
    if (sent === count) stream.end();
    else stream.write(message, send);
    sent++;
  };
  send();
  // While the server reads, each round trip makes room for more.
  for (let before = -1; before !== sent; ) {
    before = sent;
    for (let trip = 0; trip < 20; trip++) await new Promise((resolve) => session.ping(resolve));
  }
  expect(sent).toBeLessThan(count / 2);
  stream.resume();
  expect(await ended).toBe(status.OK);
  expect(sent).toBe(count + 1);
});

test("Leases that a killed jobgate gave out are finished and renewed in the first message", async () => {
  const { store, accept, connect } = await startWorkDelivery();
  for (let index = 0; index < 3; index++) await accept();
  // As left behind by a killed jobgate: the calls are on no stream of this one.
  const { calls } = await store.claim({
    limit: 3,
    jobIds: [],
    leaseMs: 60_000,
    maxAttempts: 9,
    subscriber: "old",
  });
  const [acked, extended, lost] = calls.map(({ callId, leaseToken }) => ({
    callId: BigInt(callId),
    leaseToken,
  }));
  if (!acked || !extended || !lost) throw new Error("Fewer than three JobCalls");
  const stream = await connect().work(
    {},
    { sequence: 1n, acks: [acked, { ...lost, leaseToken: "gone" }], extends: [extended] },
  );
  await until(() => stream.messages.length > 0);
  expect(stream.messages[0]?.statuses).toMatchObject([
    { sequence: 1n, acks: [DONE, LEASE_LOST], extends: [DONE] },
  ]);
  expect((await stream.ask({ acks: [extended] })).acks).toEqual([DONE]);
});

test("A JobCall is done or goes to the next when its stream breaks right after the ack", async () => {
  const { store, accept, connect } = await startWorkDelivery({ retryBaseMs: 1, retryMaxMs: 1 });
  for (let round = 0; round < 5; round++) {
    await accept();
    const stream = await connect().work();
    stream.send({ acks: [named(await stream.next())] });
    stream.raw.cancel();
  }
  const last = await connect().work();
  await until(async () => {
    if (last.calls.length > 0) await last.ask({ acks: last.calls.map(named) });
    const { ready, leased } = (await store.totals()).calls;
    return ready + leased === 0;
  });
  expect((await store.totals()).calls.dead).toBe(0);
});

test("JobCalls lost with their stream come back alone, one after the other", async () => {
  const { server, accept, connect } = await startWorkDelivery({ retryBaseMs: 1, retryMaxMs: 1 });
  const lost: bigint[] = [];
  for (let index = 0; index < 3; index++) lost.push(BigInt(await accept()));
  const crashed = await connect().work();
  await until(() => crashed.calls.length === 3);
  crashed.raw.cancel();
  const stream = await connect().work();
  const again: bigint[] = [];
  while (again.length < lost.length) {
    const call = await stream.next();
    expect(Math.max(...server.runners().map(({ inFlight }) => inFlight))).toBe(1);
    again.push(call.callId);
    await stream.ask({ acks: [named(call)] });
  }
  expect(again.sort()).toEqual(lost);
});

test("A busy stream runs empty for a JobCall lost with its stream, although another is paused", async () => {
  const { store, accept, connect } = await startWorkDelivery({ retryBaseMs: 1, retryMaxMs: 1 });
  const lost = BigInt(await accept());
  const crashed = await connect().work({ maxInFlight: 1 });
  await crashed.next();
  await connect().work({}, { maxInFlight: 0 });
  const stream = await connect().work({ maxInFlight: 2 });
  for (let index = 0; index < 30; index++) await accept();
  await until(() => stream.calls.length === 2);
  crashed.raw.cancel();
  await until(async () => (await store.totals()).calls.leased === 2);
  // There is always more to do.
  let callId: bigint | undefined;
  for (let done = 0; callId !== lost && done < 5_000; done++) {
    await accept();
    const call = await stream.next();
    ({ callId } = call);
    await stream.ask({ acks: [named(call)] });
  }
  expect(callId).toBe(lost);
});
