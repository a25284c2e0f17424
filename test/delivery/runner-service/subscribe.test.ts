import { createHash } from "node:crypto";
import { status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { AckMode } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { until } from "../../helpers/until.ts";
import { startDelivery } from "../harness.ts";

describe("Subscribe", () => {
  test("An idle runner gets headers at once", async () => {
    const { connect } = await startDelivery();
    const stream = await connect().subscribe({ subscriber: "idle" });
    expect(stream.calls).toEqual([]);
  });

  test("A JobCall has its body byte for byte, its metadata, its lease and its times", async () => {
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
    expect(call.leaseSecs).toBe(30);
    expect(leaseExpiresAt).toBeGreaterThanOrEqual(before + 30_000);
    expect(leaseExpiresAt).toBeLessThanOrEqual(Date.now() + 30_000);
  });

  test("No more than max_in_flight JobCalls are out, and a finished one makes room", async () => {
    const { store, accept, connect } = await startDelivery();
    const callIds: number[] = [];
    for (let index = 0; index < 5; index++) callIds.push(await accept());
    const runner = connect();
    const stream = await runner.subscribe({ maxInFlight: 2 });
    const first = await stream.next();
    await stream.next();
    expect((await store.totals()).calls).toMatchObject({ ready: 3, leased: 2 });
    const [otherRunner, lastRunner] = [connect(), connect()];
    const third = await (await otherRunner.subscribe({ maxInFlight: 1 })).next();
    await runner.ack(first);
    const fourth = await stream.next();
    // The JobCalls that the stream did not get go to other runners.
    const fifth = await (await lastRunner.subscribe({ maxInFlight: 1 })).next();
    expect([third, fourth, fifth].map(({ callId }) => Number(callId))).toEqual(callIds.slice(2));
    expect(stream.calls).toHaveLength(3);
  });

  test("max_in_flight defaults to 64", async () => {
    const { store, accept, connect } = await startDelivery();
    await Promise.all(Array.from({ length: 70 }, () => accept()));
    const stream = await connect().subscribe();
    await until(() => stream.calls.length >= 64);
    expect((await store.totals()).calls).toMatchObject({ ready: 6, leased: 64 });
    const other = await connect().subscribe();
    await until(() => other.calls.length === 6);
    expect(stream.calls).toHaveLength(64);
  });

  test("A runner gets only the jobs that it named", async () => {
    const { accept, connect } = await startDelivery();
    const unwanted = await accept({ jobId: 1n });
    const wanted = await accept({ jobId: 2n });
    const stream = await connect().subscribe({ jobIds: [2n, 3n] });
    expect((await stream.next()).callId).toBe(BigInt(wanted));
    const later = await accept({ jobId: 3n });
    expect((await stream.next()).callId).toBe(BigInt(later));
    expect((await (await connect().subscribe()).next()).callId).toBe(BigInt(unwanted));
    expect(stream.calls).toHaveLength(2);
  });

  test("JobCalls come in order of their id, and a JobCall that waits for its retry does not delay the rest", async () => {
    const { accept, connect } = await startDelivery();
    const ids = [await accept(), await accept(), await accept()].map(BigInt);
    const runner = connect();
    const stream = await runner.subscribe({ maxInFlight: 1 });
    const first = await stream.next();
    await runner.nack({
      ...first,
      outcome: { case: "retry", value: { delay: { seconds: 3_600n } } },
    });
    for (let index = 0; index < 2; index++) await runner.ack(await stream.next());
    expect(stream.calls.map((call) => call.callId)).toEqual(ids);
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

test("A body of 1 MiB arrives unchanged", async () => {
  const { accept, connect } = await startDelivery();
  const body = Buffer.alloc(1024 * 1024, "jobgate");
  await accept({ body });
  const call = await (await connect().subscribe()).next();
  const digest = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
  expect(digest(call.body)).toBe(digest(body));
});
