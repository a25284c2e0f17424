import { status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { LeaseStatus } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { paidId } from "../../store/store-fixtures.ts";
import { startDelivery } from "../harness.ts";

const { DONE, LEASE_LOST, NOT_FOUND } = LeaseStatus;

describe("Extend", () => {
  test("Extend without a time renews the lease by its configured length", async () => {
    const { store, accept, connect } = await startDelivery({ leaseMs: 60_000 });
    await accept();
    const runner = connect();
    const call = await (await runner.subscribe()).next();
    for (let round = 0; round < 3; round++) {
      const extendedAt = Date.now();
      expect(await runner.extend([call])).toEqual([DONE]);
      const dueInMs = (await store.nextDueMs()) ?? Number.NaN;
      expect(Date.now() + dueInMs).toBeGreaterThanOrEqual(extendedAt + 60_000);
    }
    expect(await runner.ack(call)).toEqual([DONE]);
  });

  test("An extended lease does not run out at its first end, and keeps its slot", async () => {
    const { accept, connect } = await startDelivery({ leaseMs: 200, maxAttempts: 1_000 });
    for (let index = 0; index < 3; index++) await accept();
    const runner = connect();
    const stream = await runner.subscribe({ maxInFlight: 1 });
    let call = await stream.next();
    // On a slow machine the first lease may end before it is extended.
    while ((await runner.extend([call], { seconds: 30n }))[0] !== DONE) call = await stream.next();
    const delivered = stream.calls.length;
    // A lease that began later, and was not extended, runs out.
    const other = await connect().subscribe({ maxInFlight: 1 });
    await other.next();
    expect((await other.next()).attempt).toBeGreaterThan(1);
    expect(stream.calls).toHaveLength(delivered);
    expect(await runner.ack(call)).toEqual([DONE]);
    await stream.next();
  });

  test("Extend of a lost lease is LEASE_LOST", async () => {
    const { accept, connect } = await startDelivery({ leaseMs: 100, maxAttempts: 1_000 });
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

  test("Progress above 100 % refuses the request, and changes no lease in it", async () => {
    const { store, connect } = await startDelivery({ leaseMs: 60_000 });
    const callId = await paidId(store, 103);
    const runner = connect();
    const call = await (await runner.subscribe()).next();
    const extend = runner.extend([call, { ...call, progress: { percent: 101, text: "more" } }], {
      seconds: 1n,
    });
    await expect(extend).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    expect(await store.findCall(callId)).toMatchObject({ state: "running" });
    expect(await store.nextDueMs()).toBeGreaterThan(30_000);
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
