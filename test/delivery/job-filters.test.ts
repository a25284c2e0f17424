import { status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import type { Subscription } from "../../src/delivery/subscription.ts";
import { type JobCall, LeaseStatus } from "../../src/gen/jobgate/v1/runner_pb.ts";
import type { ClaimedCall } from "../../src/store/contract/work-queue.ts";
import type { Store } from "../../src/store/store.ts";
import { until } from "../helpers/until.ts";
import { openStoreForTest, startDelivery } from "./harness.ts";

const [JOB, OTHER] = [7n, 8n];

test("Streams with and without job_ids share the work in turn, whether it comes at once or one by one", async () => {
  const { accept, connect } = await startDelivery();
  const streams = [
    await connect().subscribe(),
    await connect().subscribe({ jobIds: [JOB] }),
    await connect().subscribe({ jobIds: [JOB, OTHER] }),
  ];
  const counts = () => streams.map(({ calls }) => calls.length);
  await Promise.all(Array.from({ length: 12 }, () => accept({ jobId: JOB })));
  await until(() => counts().reduce((sum, count) => sum + count) === 12);
  expect(counts()).toEqual([4, 4, 4]);
  for (let index = 0; index < 9; index++) await accept({ jobId: JOB });
  await until(() => counts().reduce((sum, count) => sum + count) === 21);
  expect(counts()).toEqual([7, 7, 7]);
});

test("Streams whose jobs overlap share them in turn while the jobs alternate", async () => {
  const { accept, connect } = await startDelivery();
  const streams = [
    await connect().subscribe({ jobIds: [JOB] }),
    await connect().subscribe({ jobIds: [OTHER] }),
    await connect().subscribe({ jobIds: [JOB, OTHER] }),
  ];
  const counts = () => streams.map(({ calls }) => calls.length);
  for (let index = 0; index < 12; index++) {
    await accept({ jobId: index % 2 === 0 ? JOB : OTHER });
    await until(() => counts().reduce((sum, count) => sum + count) === index + 1);
  }
  expect(counts()).toEqual([4, 4, 4]);
});

test("A stream that could take all the work leaves a share to a stream with job_ids", async () => {
  const { accept, connect } = await startDelivery();
  const all = await connect().subscribe({ maxInFlight: 10 });
  const some = await connect().subscribe({ maxInFlight: 10, jobIds: [JOB] });
  await Promise.all(Array.from({ length: 10 }, () => accept({ jobId: JOB })));
  await until(() => all.calls.length + some.calls.length === 10);
  expect([all.calls.length, some.calls.length]).toEqual([5, 5]);
});

test("A stream with job_ids gets no other job from claims that are shared", async () => {
  const { accept, connect } = await startDelivery();
  const all = await connect().subscribe();
  const some = await connect().subscribe({ jobIds: [JOB] });
  await Promise.all(Array.from({ length: 10 }, (_, index) => accept({ jobId: index < 4 ? JOB : OTHER })));
  await until(() => all.calls.length + some.calls.length === 10);
  expect(new Set(some.calls.map(({ jobId }) => jobId))).toEqual(new Set([JOB]));
  expect(some.calls.length).toBeGreaterThanOrEqual(2);
});

test("A stream without job_ids keeps the room that its own claim fills, so that nothing is given back", async () => {
  const store = await openStoreForTest();
  let givenBack = 0;
  const counting: Store = {
    ...store,
    release: (...release) => {
      givenBack++;
      return store.release(...release);
    },
  };
  const { accept, connect } = await startDelivery({ store: counting });
  // The first to connect claims first.
  const some = await connect().subscribe({ maxInFlight: 3, jobIds: [JOB] });
  const all = await connect().subscribe({ maxInFlight: 4 });
  await Promise.all([JOB, JOB, JOB, OTHER, OTHER, OTHER, OTHER, OTHER].map((jobId) => accept({ jobId })));
  await until(() => all.calls.length === 4 && some.calls.length === 3);
  expect(givenBack).toBe(0);
});

describe("A reserved job", () => {
  const request = { subscriber: "part", maxInFlight: 1, jobIds: [JOB], ackOnSend: false, reserves: true };
  /** Connection of a runner that never finishes a call. */
  const openSink = () => {
    const taken: number[] = [];
    const sink = {
      write(call: ClaimedCall, onWritten: () => void) {
        taken.push(call.callId);
        onWritten();
        return true;
      },
      endForShutdown: () => undefined,
    };
    return { taken, sink };
  };
  const idsOf = (calls: readonly JobCall[]) => calls.map(({ callId }) => Number(callId));

  test("Its calls go only to streams that reserve it, and to all once the reservation has ended", async () => {
    const { accept, connect, server } = await startDelivery();
    const named = await connect().subscribe({ maxInFlight: 10, jobIds: [OTHER] });
    const { taken, sink } = openSink();
    const reserving = server.dispatcher.subscribe(request, sink) as Subscription;
    const all = await connect().subscribe({ maxInFlight: 10 });
    const ids = [await accept({ jobId: JOB }), await accept({ jobId: JOB }), await accept({ jobId: OTHER })];
    const got = () => idsOf([...all.calls, ...named.calls]);
    await until(() => taken.length === 1 && got().length === 1);
    expect([taken, got()]).toEqual([[ids[0]], [ids[2]]]);
    server.dispatcher.unsubscribe(reserving, { excused: true });
    await until(() => got().length === 3);
  });

  test("A stream that names it is refused while another stream reserves it", async () => {
    const { connect, server } = await startDelivery();
    const reserving = server.dispatcher.subscribe(request, openSink().sink) as Subscription;
    const refusal = { code: status.INVALID_ARGUMENT, details: expect.stringContaining("7, a job of part") };
    await expect(connect().subscribe({ jobIds: [OTHER, JOB] })).rejects.toMatchObject(refusal);
    await connect().subscribe({ jobIds: [OTHER] });
    server.dispatcher.unsubscribe(reserving);
    await connect().subscribe({ jobIds: [JOB] });
  });

  test("A stream that names it ends once another stream reserves it, and its runner can still finish its calls", async () => {
    const { accept, connect, server } = await startDelivery();
    const runner = connect();
    const [named, other] = [
      await runner.subscribe({ maxInFlight: 2, jobIds: [OTHER, JOB] }),
      await runner.subscribe({ maxInFlight: 2, jobIds: [OTHER] }),
    ];
    const callId = await accept({ jobId: JOB });
    await until(() => named.calls.length === 1);
    const { sink, taken } = openSink();
    server.dispatcher.subscribe(request, sink);
    expect(await named.ended).toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringContaining("7, a job of part"),
    });
    expect(await runner.ack(named.calls[0] as JobCall)).toEqual([LeaseStatus.DONE]);
    expect(taken).not.toContain(callId);
    const next = await accept({ jobId: OTHER });
    await until(() => other.calls.length === 1);
    expect(idsOf(other.calls)).toEqual([next]);
  });

  test("Its calls wait if no stream reserves it, until it is reserved no more", async () => {
    const { accept, connect, server } = await startDelivery();
    server.dispatcher.reserve([JOB]);
    const all = await connect().subscribe({ maxInFlight: 10 });
    const named = await connect().subscribe({ maxInFlight: 10, jobIds: [JOB] });
    const waits = await accept({ jobId: JOB });
    const other = await accept({ jobId: OTHER });
    await until(() => all.calls.length === 1);
    expect([idsOf(all.calls), named.calls]).toEqual([[other], []]);
    server.dispatcher.reserve([]);
    await until(() => all.calls.length + named.calls.length === 2);
    expect(idsOf([...all.calls, ...named.calls])).toContain(waits);
  });

  test("A call that is claimed as the stream that reserves its job ends goes back to the queue", async () => {
    const store = await openStoreForTest();
    let end = () => {};
    const ending: Store = {
      ...store,
      async claim(claim) {
        const answer = await store.claim(claim);
        if (claim.reserves === true && answer.calls.length > 0) end();
        return answer;
      },
    };
    const { accept, connect, server } = await startDelivery({ store: ending });
    const { taken, sink } = openSink();
    const reserving = server.dispatcher.subscribe(request, sink) as Subscription;
    end = () => server.dispatcher.unsubscribe(reserving, { excused: true });
    const all = await connect().subscribe({ maxInFlight: 10 });
    await connect().subscribe({ maxInFlight: 10, jobIds: [OTHER] });
    await accept({ jobId: JOB });
    await until(() => all.calls.length === 1);
    expect([taken, all.calls[0]?.attempt]).toEqual([[], 2]);
  });
});

describe("A job that is held", () => {
  test("Its calls wait for every stream, also for streams that name the job, and go out once the hold ends", async () => {
    const { accept, connect, server } = await startDelivery();
    server.dispatcher.hold([JOB]);
    const all = await connect().subscribe({ maxInFlight: 10 });
    const both = await connect().subscribe({ maxInFlight: 10, jobIds: [JOB, OTHER] });
    const one = await connect().subscribe({ maxInFlight: 10, jobIds: [JOB] });
    const ids = await Promise.all([JOB, OTHER, JOB, OTHER].map((jobId) => accept({ jobId })));
    const got = () => [...all.calls, ...both.calls].map(({ callId }) => Number(callId)).sort();
    await until(() => got().length === 2);
    // A call that comes after them shows that the calls before it were left out.
    const last = await accept({ jobId: OTHER });
    await until(() => got().length === 3);
    expect([got(), one.calls]).toEqual([[ids[1], ids[3], last].sort(), []]);
    server.dispatcher.hold([]);
    await until(() => got().length + one.calls.length === 5);
  });

  test("A call that a runner has may finish, and a call that the runner gives back waits", async () => {
    const { accept, connect, server, store } = await startDelivery();
    const runner = connect();
    const { calls } = await runner.subscribe({ maxInFlight: 10 });
    await Promise.all([accept({ jobId: JOB }), accept({ jobId: JOB })]);
    await until(() => calls.length === 2);
    server.dispatcher.hold([JOB]);
    const [finished, returned] = calls as [JobCall, JobCall];
    expect(await runner.ack(finished)).toEqual([LeaseStatus.DONE]);
    expect(await runner.nack(returned)).toEqual([LeaseStatus.DONE]);
    // Its delay is over once the next claim of all has made it ready.
    await until(async () => (await store.nextDueMs()) === undefined);
    await accept({ jobId: OTHER });
    await until(() => calls.length === 3);
    expect(calls[2]?.jobId).toBe(OTHER);
    server.dispatcher.hold([]);
    await until(() => calls.length === 4);
    expect(calls[3]).toMatchObject({ callId: returned.callId, attempt: 2 });
  });
});
