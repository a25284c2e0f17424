import { createHash } from "node:crypto";
import { status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { AckMode, LeaseStatus } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { paidId } from "../store/store-fixtures.ts";
import { sleep, startDelivery, until } from "./harness.ts";

const { DONE, LEASE_LOST, NOT_FOUND } = LeaseStatus;
const MIB = 1024 * 1024;

describe("Subscribe", () => {
  test("An idle runner gets headers at once, and so knows that it is connected", async () => {
    const { connect } = await startDelivery();
    const stream = await connect().subscribe({ subscriber: "idle" });
    expect(stream.calls).toEqual([]);
  });

  test("A JobCall carries its body byte for byte, its metadata, its lease and its times", async () => {
    const { accept, connect } = await startDelivery({ leaseMs: 30_000 });
    const body = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const before = Date.now();
    const callId = await accept({ body, jobId: 2n ** 63n + 1n });
    const call = await (await connect().subscribe()).next();
    expect(Buffer.from(call.body).equals(body)).toBe(true);
    expect(call).toMatchObject({ callId: BigInt(callId), jobId: 2n ** 63n + 1n, serviceId: 1n, attempt: 1 });
    expect(call.metadata).toEqual({
      "X-WEBHOOK-ORIGIN": "webhook",
      "X-WEBHOOK-PATH": "/hooks/test",
      "X-CHAIN-CALL-ID": String(callId),
    });
    expect(call.leaseToken).not.toBe("");
    const enqueuedAt = Number(call.enqueuedAt?.seconds) * 1000 + (call.enqueuedAt?.nanos ?? 0) / 1e6;
    const leaseExpiresAt =
      Number(call.leaseExpiresAt?.seconds) * 1000 + (call.leaseExpiresAt?.nanos ?? 0) / 1e6;
    expect(enqueuedAt).toBeGreaterThanOrEqual(before);
    expect(leaseExpiresAt).toBeGreaterThanOrEqual(before + 30_000);
    expect(leaseExpiresAt).toBeLessThanOrEqual(Date.now() + 30_000);
  });

  test("No more than max_in_flight JobCalls are out, and a finished one makes room", async () => {
    const { accept, connect } = await startDelivery();
    for (let index = 0; index < 5; index++) await accept();
    const runner = connect();
    const stream = await runner.subscribe({ maxInFlight: 2 });
    const first = await stream.next();
    await stream.next();
    await sleep(100);
    expect(stream.calls).toHaveLength(2);
    await runner.ack(first);
    await stream.next();
    await sleep(100);
    expect(stream.calls).toHaveLength(3);
  });

  test("max_in_flight is 64 unless asked for otherwise", async () => {
    const { accept, connect } = await startDelivery();
    await Promise.all(Array.from({ length: 70 }, () => accept()));
    const stream = await connect().subscribe();
    await until(() => stream.calls.length >= 64);
    await sleep(100);
    expect(stream.calls).toHaveLength(64);
  });

  test("A runner gets only the jobs that it asked for", async () => {
    const { accept, connect } = await startDelivery();
    await accept({ jobId: 1n });
    const wanted = await accept({ jobId: 2n });
    const stream = await connect().subscribe({ jobIds: [2n, 3n] });
    expect((await stream.next()).callId).toBe(BigInt(wanted));
    const later = await accept({ jobId: 3n });
    expect((await stream.next()).callId).toBe(BigInt(later));
    await sleep(50);
    expect(stream.calls).toHaveLength(2);
  });

  test("JobCalls come in order of their id, and one that is retried does not hold up the rest", async () => {
    const { accept, connect } = await startDelivery();
    const ids = [await accept(), await accept(), await accept()].map(BigInt);
    const runner = connect();
    const stream = await runner.subscribe({ maxInFlight: 1 });
    const first = await stream.next();
    await runner.nack({
      ...first,
      outcome: { case: "retry", value: { delay: { seconds: 0n, nanos: 300_000_000 } } },
    });
    for (let index = 0; index < 3; index++) await runner.ack(await stream.next());
    expect(stream.calls.map((call) => call.callId)).toEqual([ids[0], ids[1], ids[2], ids[0]]);
  });

  test("With ACK_MODE_ON_SEND a JobCall is done once it was written", async () => {
    const { store, accept, connect } = await startDelivery();
    const stream = await connect().subscribe({ ackMode: AckMode.ON_SEND, maxInFlight: 1 });
    for (let index = 0; index < 3; index++) await accept();
    await until(() => stream.calls.length === 3);
    await until(async () => (await store.totals()).calls.leased === 0);
    expect((await store.totals()).calls).toMatchObject({ ready: 0, dead: 0 });
  });

  test.each([
    ["an unknown ack mode", { ackMode: 9 as AckMode }],
    ["a name of 129 characters", { subscriber: "x".repeat(129) }],
    ["1001 job ids", { jobIds: Array.from({ length: 1001 }, (_, id) => BigInt(id)) }],
  ])("A Subscribe with %s is INVALID_ARGUMENT", async (_, request) => {
    const { connect } = await startDelivery();
    await expect(connect().subscribe(request)).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
  });
});

describe("Ack", () => {
  test("An acked JobCall is gone, and a second Ack is NOT_FOUND", async () => {
    const { store, accept, connect } = await startDelivery();
    await accept();
    const runner = connect();
    const call = await (await runner.subscribe()).next();
    expect(await runner.ack(call)).toEqual([DONE]);
    expect(await runner.ack(call)).toEqual([NOT_FOUND]);
    expect((await store.totals()).calls).toMatchObject({ ready: 0, leased: 0, dead: 0 });
  });

  test("Each lease of a batch has its own status, in order, and a bad one harms no other", async () => {
    const { accept, connect } = await startDelivery();
    await accept();
    await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    const [first, second] = [await stream.next(), await stream.next()];
    expect(
      await runner.ack(
        { callId: 0n, leaseToken: "x" },
        { callId: 2n ** 60n, leaseToken: first.leaseToken },
        first,
        { callId: second.callId, leaseToken: "forged" },
        second,
      ),
    ).toEqual([NOT_FOUND, NOT_FOUND, DONE, LEASE_LOST, DONE]);
  });

  test("An empty request is answered with an empty list", async () => {
    const { connect } = await startDelivery();
    expect(await connect().ack()).toEqual([]);
  });

  test("A foreign Ack, one call's id with another's token, neither finishes a JobCall nor frees a slot", async () => {
    const { store, accept, connect } = await startDelivery();
    for (let index = 0; index < 3; index++) await accept();
    const runner = connect();
    const stream = await runner.subscribe({ maxInFlight: 2 });
    const [first, second] = [await stream.next(), await stream.next()];
    expect(await runner.ack({ callId: first.callId, leaseToken: second.leaseToken })).toEqual([LEASE_LOST]);
    await sleep(100);
    expect(stream.calls).toHaveLength(2);
    expect((await store.totals()).calls).toMatchObject({ ready: 1, leased: 2 });
  });

  test("A late Ack is LEASE_LOST and leaves the next delivery alone", async () => {
    const { accept, connect } = await startDelivery({ leaseMs: 150 });
    await accept();
    const runner = connect();
    const stream = await runner.subscribe({ maxInFlight: 1 });
    const first = await stream.next();
    const second = await stream.next();
    expect(second).toMatchObject({ callId: first.callId, attempt: 2 });
    expect(await runner.ack(first)).toEqual([LEASE_LOST]);
    expect(await runner.ack(second)).toEqual([DONE]);
  });

  test("A result of 1 MiB is taken, and several of them in one request", async () => {
    const { accept, connect } = await startDelivery();
    const runner = connect();
    const stream = await runner.subscribe();
    for (let index = 0; index < 8; index++) await accept();
    await until(() => stream.calls.length === 8);
    const result = { body: Buffer.alloc(MIB), contentType: "image/png" };
    const statuses = await runner.ack(...stream.calls.map((call) => ({ ...call, result })));
    expect(statuses).toEqual(Array(8).fill(DONE));
  });

  test("Ack with a 2 MiB result is refused, and every lease of the request is kept", async () => {
    const { store, accept, connect } = await startDelivery();
    await accept();
    await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    const [first, second] = [await stream.next(), await stream.next()];
    await expect(
      runner.ack(first, { ...second, result: { body: Buffer.alloc(2 * MIB) } }),
    ).rejects.toMatchObject({ code: status.INVALID_ARGUMENT, details: expect.stringContaining("1048576") });
    expect((await store.totals()).calls.leased).toBe(2);
    expect(await runner.ack(first, second)).toEqual([DONE, DONE]);
  });

  test.each(["text", "text/html\r\nX-Evil: 1", `a/${"b".repeat(300)}`])(
    "A content type that is not one (%j) is refused: it would become a response header",
    async (contentType) => {
      const { connect } = await startDelivery();
      const ack = connect().ack({ callId: 1n, leaseToken: "x", result: { contentType } });
      await expect(ack).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    },
  );
});

describe("Nack", () => {
  test("Retry without a delay of its own delivers again after the backoff, as the next attempt", async () => {
    const { accept, connect } = await startDelivery();
    await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    expect(await runner.nack(await stream.next())).toEqual([DONE]);
    expect(await stream.next()).toMatchObject({ attempt: 2 });
  });

  test("Retry after a delay comes when the delay is over, and not before", async () => {
    const { accept, connect } = await startDelivery();
    await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    const call = await stream.next();
    const nackedAt = Date.now();
    const delay = { seconds: 0n, nanos: 250_000_000 };
    await runner.nack({ ...call, outcome: { case: "retry", value: { delay } } });
    await stream.next();
    const waitedMs = Date.now() - nackedAt;
    expect(waitedMs).toBeGreaterThanOrEqual(249);
    expect(waitedMs).toBeLessThan(900);
  });

  test("Retry with a delay of zero is due at once", async () => {
    const { accept, connect } = await startDelivery();
    await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    const call = await stream.next();
    const nackedAt = performance.now();
    await runner.nack({ ...call, outcome: { case: "retry", value: { delay: {} } } });
    await stream.next();
    expect(performance.now() - nackedAt).toBeLessThan(500);
  });

  test("Fail makes a dead letter at once, with its reason, cut to 4096 characters", async () => {
    const { store, accept, connect } = await startDelivery();
    const callId = await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    const call = await stream.next();
    expect(
      await runner.nack({
        ...call,
        outcome: { case: "fail", value: { reason: `bad input ${"x".repeat(9000)}` } },
      }),
    ).toEqual([DONE]);
    const dead = await store.findDeadLetter(callId);
    expect(dead?.reason).toMatch(/^bad input x+$/);
    expect(dead?.reason).toHaveLength(4096);
    await sleep(50);
    expect(stream.calls).toHaveLength(1);
  });

  test.each([-1, 86_401])("A retry delay of %d s is refused and the lease kept", async (seconds) => {
    const delay = { seconds: BigInt(seconds) };
    const { store, accept, connect } = await startDelivery();
    await accept();
    const runner = connect();
    const call = await (await runner.subscribe()).next();
    await expect(
      runner.nack({ ...call, outcome: { case: "retry", value: { delay } } }),
    ).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    expect((await store.totals()).calls.leased).toBe(1);
  });
});

describe("Extend", () => {
  test("A lease that is extended does not run out", async () => {
    const { accept, connect } = await startDelivery({ leaseMs: 300 });
    await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    const call = await stream.next();
    for (let round = 0; round < 5; round++) {
      await sleep(120);
      expect(await runner.extend([call])).toEqual([DONE]);
    }
    expect(stream.calls).toHaveLength(1);
    expect(await runner.ack(call)).toEqual([DONE]);
  });

  test("Extend for a time of the runner's own choice also moves when the slot is free again", async () => {
    const { accept, connect } = await startDelivery({ leaseMs: 200 });
    await accept();
    await accept();
    const runner = connect();
    const stream = await runner.subscribe({ maxInFlight: 1 });
    const call = await stream.next();
    expect(await runner.extend([call], { seconds: 30n })).toEqual([DONE]);
    await sleep(400);
    expect(stream.calls).toHaveLength(1);
    expect(await runner.ack(call)).toEqual([DONE]);
    await stream.next();
  });

  test("Extend of a lost lease says so", async () => {
    const { accept, connect } = await startDelivery({ leaseMs: 100 });
    await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    const first = await stream.next();
    await stream.next();
    expect(await runner.extend([first, { callId: 0n, leaseToken: "" }])).toEqual([LEASE_LOST, NOT_FOUND]);
  });

  test("Each lease of an Extend carries its own progress, cut to 200 characters, to the paying client", async () => {
    const { store, connect } = await startDelivery();
    const [plain, told] = [await paidId(store, 101), await paidId(store, 102)];
    const runner = connect();
    const stream = await runner.subscribe();
    const [first, second] = [await stream.next(), await stream.next()];
    const progress = { percent: 55, text: `x${"😀".repeat(250)}` };
    expect(await runner.extend([first, { ...second, progress }])).toEqual([DONE, DONE]);
    expect((await store.findCall(plain))?.progress).toBeUndefined();
    expect((await store.findCall(told))?.progress).toEqual({ percent: 55, text: `x${"😀".repeat(199)}` });
  });

  test("Progress above 100 % refuses the request, and every lease in it stays as it was", async () => {
    const { store, connect } = await startDelivery({ leaseMs: 60_000 });
    const callId = await paidId(store, 103);
    const runner = connect();
    const call = await (await runner.subscribe()).next();
    const extend = runner.extend([call, { ...call, progress: { percent: 101, text: "more" } }], {
      seconds: 1n,
    });
    await expect(extend).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    expect(await store.findCall(callId)).toMatchObject({ state: "running" });
    expect(await store.nextDue()).toBeGreaterThan(Date.now() + 30_000);
  });

  test.each([0, -5, 86_401])("Extend by %d s is refused", async (seconds) => {
    const lease = { seconds: BigInt(seconds) };
    const { connect } = await startDelivery();
    const extend = connect().extend([], lease);
    await expect(extend).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
  });
});

test("10,001 leases in one request are refused", async () => {
  const { connect } = await startDelivery();
  const leases = Array.from({ length: 10_001 }, () => ({ callId: 1n, leaseToken: "x" }));
  await expect(connect().extend(leases)).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
});

test("A body of 1 MiB arrives unchanged", async () => {
  const { accept, connect } = await startDelivery();
  const body = Buffer.alloc(MIB, "jobgate");
  await accept({ body });
  const call = await (await connect().subscribe()).next();
  const digest = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
  expect(digest(call.body)).toBe(digest(body));
});
