import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { JobCall } from "../../src/gen/jobgate/v1/runner_pb.ts";
import type { ReleaseOptions } from "../../src/store/contract/work-queue.ts";
import { until } from "../helpers/until.ts";
import { ackEverything, openStoreForTest, openStoreWithClock, startDelivery } from "./harness.ts";

/** Time that a runner works on one JobCall: others can be accepted in it. */
const WORK_MS = 3;

test("A runner that subscribes with max_in_flight 1,000 and dies six times makes no dead letter", async () => {
  const { store, accept, connect } = await startDelivery({ maxAttempts: 3, retryBaseMs: 5, retryMaxMs: 10 });
  await Promise.all(Array.from({ length: 60 }, () => accept()));
  const taken: number[] = [];
  for (let life = 0; life < 6; life++) {
    const crashing = connect();
    const stream = await crashing.subscribe({ maxInFlight: 1_000 });
    await until(() => stream.calls.length === (life === 0 ? 60 : 1));
    stream.cancel();
    taken.push(stream.calls.length);
    await until(async () => (await store.totals()).calls.leased === 0);
  }
  expect(taken).toEqual([60, 1, 1, 1, 1, 1]);
  expect((await store.totals()).calls).toMatchObject({ dead: 0, ready: 60 });

  const working = connect();
  const stream = await working.subscribe({ maxInFlight: 1_000 });
  ackEverything(working, stream);
  await until(async () => {
    const { ready, leased } = (await store.totals()).calls;
    return ready + leased === 0;
  });
  expect((await store.totals()).calls.dead).toBe(0);
});

test("A JobCall that kills its runner takes no neighbour to max_attempts", async () => {
  const { store, endLeases } = await openStoreWithClock();
  const { accept, connect } = await startDelivery({ store, maxAttempts: 3 });
  const poison = await accept({ body: Buffer.from("poison") });
  await Promise.all(Array.from({ length: 20 }, () => accept()));
  const live = async () => {
    const runner = connect();
    const stream = await runner.subscribe();
    stream.raw.on("data", (call) => {
      if (Buffer.from(call.body).toString() === "poison") stream.cancel();
      else setTimeout(() => void runner.ack(call).catch(() => undefined), WORK_MS);
    });
    await stream.ended;
  };
  for (let life = 0; life < 3; life++) await live();
  const survivor = connect();
  const stream = await survivor.subscribe();
  ackEverything(survivor, stream);
  const left = async () => {
    const { ready, leased } = (await store.totals()).calls;
    return ready + leased;
  };
  await until(async () => (await left()) === 1);
  endLeases();
  await until(async () => (await left()) === 0);
  expect((await store.totals()).calls.dead).toBe(1);
  expect(await store.findDeadLetter(poison)).toMatchObject({ attempts: 3, reason: "max_attempts" });
});

test("Suspects go out alone although other work never ends, and do not hold it up for ever", async () => {
  const { store, accept, connect } = await startDelivery();
  const victim = connect();
  const lost = await victim.subscribe();
  await Promise.all(Array.from({ length: 5 }, () => accept()));
  await until(() => lost.calls.length === 5);
  lost.cancel();
  await until(async () => (await store.totals()).calls.leased === 0);

  const runner = connect();
  const stream = await runner.subscribe({ maxInFlight: 4 });
  const out = new Set<bigint>();
  const suspects = new Set<bigint>();
  let others = 0;
  const work: Promise<unknown>[] = [];
  const finish = async (call: JobCall) => {
    await sleep(WORK_MS);
    out.delete(call.callId);
    await runner.ack(call);
  };
  stream.raw.on("data", (call) => {
    out.add(call.callId);
    if (call.attempt === 2) {
      expect([...out]).toEqual([call.callId]);
      suspects.add(call.callId);
    } else others++;
    work.push(finish(call));
    // There is always more to do.
    if (suspects.size < 5) work.push(accept());
  });
  for (let i = 0; i < 8; i++) await accept();
  await until(() => suspects.size === 5);
  await until(async () => {
    await Promise.all(work);
    const { ready, leased } = (await store.totals()).calls;
    return ready + leased === 0;
  });
  expect(others).toBeGreaterThanOrEqual(8);
});

test("A runner that dies while its Extend is under way has used up an attempt", async () => {
  const store = await openStoreForTest();
  let letGo = () => {};
  const held = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  let asked = false;
  const released: ReleaseOptions[] = [];
  const { server, accept, connect } = await startDelivery({
    store: {
      ...store,
      async extend(...request) {
        asked = true;
        await held;
        return store.extend(...request);
      },
      release(lease, options) {
        released.push(options);
        return store.release(lease, options);
      },
    },
  });
  await accept();
  const runner = connect();
  const stream = await runner.subscribe();
  const extending = runner.extend([await stream.next()]).catch(() => undefined);
  await until(() => asked);
  stream.cancel();
  await until(() => server.runners().length === 0);
  letGo();
  await extending;
  await until(() => released.length === 1);
  expect(released).toEqual([expect.objectContaining({ excused: false })]);
});
