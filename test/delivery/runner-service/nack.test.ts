import { status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { LeaseStatus } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { startDelivery } from "../harness.ts";

const { DONE } = LeaseStatus;

describe("Nack", () => {
  test("Retry without a delay delivers again after the backoff, as the next attempt", async () => {
    const { accept, connect } = await startDelivery();
    await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    expect(await runner.nack(await stream.next())).toEqual([DONE]);
    expect(await stream.next()).toMatchObject({ attempt: 2 });
  });

  test("Retry with a delay does not deliver before the delay is over", async () => {
    const { accept, connect } = await startDelivery();
    await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    const call = await stream.next();
    const nackedAt = Date.now();
    const delay = { seconds: 0n, nanos: 250_000_000 };
    await runner.nack({ ...call, outcome: { case: "retry", value: { delay } } });
    await stream.next();
    expect(Date.now() - nackedAt).toBeGreaterThanOrEqual(249);
  });

  test("Retry with a delay of zero is due at once, not at the next poll", async () => {
    const { accept, connect } = await startDelivery({ maxAttempts: 100 });
    await accept();
    const runner = connect();
    const stream = await runner.subscribe();
    let call = await stream.next();
    // jobgate looks once a second, so that these would take longer than a test may.
    for (let round = 0; round < 40; round++) {
      await runner.nack({ ...call, outcome: { case: "retry", value: { delay: {} } } });
      call = await stream.next();
    }
    expect(call.attempt).toBe(41);
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
    expect((await store.totals()).calls).toMatchObject({ ready: 0, leased: 0, dead: 1 });
    const later = await accept();
    expect((await stream.next()).callId).toBe(BigInt(later));
  });

  test("A reason is kept whole if it has a NUL, and is cut between characters", async () => {
    const { store, accept, connect } = await startDelivery();
    const [withNul, long] = [await accept(), await accept()];
    const runner = connect();
    const stream = await runner.subscribe();
    for (const reason of ["bad\0 input", "😀".repeat(4097)])
      await runner.nack({ ...(await stream.next()), outcome: { case: "fail", value: { reason } } });
    expect((await store.findDeadLetter(withNul))?.reason).toBe("bad\uFFFD input");
    expect((await store.findDeadLetter(long))?.reason).toBe("😀".repeat(4096));
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
