import { setTimeout as sleep } from "node:timers/promises";
import { status } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { encodeJobCall } from "../../../src/delivery/job-call-codec.ts";
import type { JobCall } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import type { SharedLeases } from "../../../src/store/contract/work-queue.ts";
import type { Store } from "../../../src/store/store.ts";
import { type Delivery, named, type Runner } from "../../delivery/harness.ts";
import { startPostgres } from "../../helpers/postgres.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { startWorkDelivery } from "../work-stream/harness.ts";
import { openReplica, PATIENT } from "./open-in-database.ts";

const DONE = 1;
const LEASE_MS = 5_000;
const RENEWED_EVERY_MS = LEASE_MS / 5;
/** Longer than a test may take. */
const NEVER_MS = 3_600_000;

let stores: [Store, Store];
/** Expired leases that the first replica counted. */
let expired: number;

const postgres = startBeforeAll(startPostgres);
beforeEach(async () => {
  const url = await postgres.createDatabase();
  stores = await Promise.all([
    openReplica(url, { encodeJobCall, timeouts: PATIENT }),
    openReplica(url, { encodeJobCall, timeouts: PATIENT }),
  ]);
  expired = 0;
});
afterEach(async () => {
  await Promise.all(stores.map((store) => store.close()));
});

interface Replicas {
  /** The replica at which the runner subscribes. */
  readonly first: Delivery;
  readonly runner: Runner;
  /** The runner's connection to the other replica. */
  readonly atOther: Runner;
  readonly other: Delivery;
}

type Settings = Parameters<typeof startWorkDelivery>[0];

async function startReplicas(settings: Settings = {}): Promise<Replicas> {
  const [store, otherStore] = stores;
  const leaseExpired = () => void expired++;
  const first = await startWorkDelivery({
    store,
    leaseMs: NEVER_MS,
    observer: { delivering: () => () => undefined, leaseExpired },
    ...settings,
  });
  const other = await startWorkDelivery({ leaseMs: NEVER_MS, ...settings, store: otherStore });
  return { first, runner: first.connect(), other, atOther: other.connect() };
}

/** Returns the first store without the other replica's messages about leases. */
function deaf(store: Store): Store {
  if (store.sharedLeases === undefined) throw new Error("this store is not shared");
  const { look } = store.sharedLeases;
  return { ...store, sharedLeases: { look, onEndedElsewhere: () => () => undefined } };
}

const inFlight = ({ server }: Delivery) => server.runners()[0]?.inFlight;

const fail = { case: "fail", value: { reason: "no good" } } as const;
const retryLater = { case: "retry", value: { delay: { seconds: 600n } } } as const;
const endings: [string, (runner: Runner, call: JobCall) => Promise<unknown>][] = [
  ["An Ack", (runner, call) => runner.ack(call)],
  [
    "A Nack that fails it",
    (runner, { callId, leaseToken }) => runner.nack({ callId, leaseToken, outcome: fail }),
  ],
  [
    "A Nack that retries it",
    (runner, { callId, leaseToken }) => runner.nack({ callId, leaseToken, outcome: retryLater }),
  ],
];

describe("A JobCall delivered by one replica and ended at another", () => {
  test.each(endings)(
    "%s frees its slot, without waiting for the next check of all leases",
    async (_, end) => {
      // The looks at all leases are an interval, which never ends here.
      vi.useFakeTimers({ toFake: ["setInterval"] });
      onTestFinished(() => void vi.useRealTimers());
      const { first, runner, atOther } = await startReplicas();
      const stream = await runner.subscribe({ maxInFlight: 1 });
      for (let i = 0; i < 20; i++) await first.accept();
      for (let i = 0; i < 20; i++) await end(atOther, await stream.next());
      expect(expired).toBe(0);
    },
  );

  test("Its slot becomes free even if the message about it is lost", async () => {
    const { first, runner, atOther } = await startReplicas({ store: deaf(stores[0]) });
    const stream = await runner.subscribe({ maxInFlight: 3 });
    for (let i = 0; i < 6; i++) await first.accept();
    const calls = [await stream.next(), await stream.next(), await stream.next()];
    await Promise.all([endings[0]?.[1](atOther, calls[0] as JobCall), atOther.ack(calls[1] as JobCall)]);
    await until(() => stream.calls.length === 5);
    expect([inFlight(first), expired]).toEqual([3, 0]);
    await runner.ack(...stream.calls.slice(2));
    await runner.ack(await stream.next());
  });

  test("A stop does not wait for it", async () => {
    const { first, runner, atOther } = await startReplicas({ drainMs: NEVER_MS });
    const stream = await runner.subscribe();
    await first.accept();
    const call = await stream.next();
    const stopping = first.server.stop();
    expect(await atOther.ack(call)).toEqual([DONE]);
    await stopping;
  });

  test("A Work stream at the other ends and renews it, and the first replica's stream ends at a stop", async () => {
    const { first, runner, atOther } = await startReplicas({ drainMs: NEVER_MS });
    const stream = await runner.work({ maxInFlight: 2 });
    const other = await atOther.work({}, { maxInFlight: 0 });
    for (let i = 0; i < 3; i++) await first.accept();
    const [acked, renewed] = [await stream.next(), await stream.next()];
    const statuses = await other.ask({ acks: [named(acked)], extends: [named(renewed)] });
    expect(statuses).toMatchObject({ acks: [DONE], extends: [DONE] });
    const held = await stream.next();
    const stopping = first.server.stop();
    expect(await other.ask({ acks: [named(held), named(renewed)] })).toMatchObject({ acks: [DONE, DONE] });
    expect((await stream.ended).code).toBe(status.UNAVAILABLE);
    await stopping;
  });

  test("A thousand ended together, more than one message carries, all free their slots", async () => {
    const { first, runner, atOther } = await startReplicas();
    const stream = await runner.subscribe({ maxInFlight: 1_000 });
    await Promise.all(Array.from({ length: 1_000 }, () => first.accept()));
    await until(() => stream.calls.length === 1_000);
    await atOther.ack(...stream.calls);
    await until(() => inFlight(first) === 0);
    expect(expired).toBe(0);
  });
});

describe("A lease given out by one replica and renewed at another", () => {
  test("It keeps its slot until the renewed lease runs out, and expires once", async () => {
    const { first, runner, atOther } = await startReplicas({ leaseMs: LEASE_MS });
    const stream = await runner.subscribe({ maxInFlight: 1 });
    const callId = await first.accept();
    const call = await stream.next();
    // Longer than two leases, each renewed long before its end.
    for (let i = 0; i < 10; i++) {
      await sleep(RENEWED_EVERY_MS);
      expect(await atOther.extend([call])).toEqual([DONE]);
    }
    expect([inFlight(first), expired]).toEqual([1, 0]);
    // The slot is free again, so it comes once more.
    expect(await stream.next()).toMatchObject({ callId: BigInt(callId), attempt: 2 });
    expect(expired).toBe(1);
    await runner.ack(stream.calls[1] as JobCall);
  });

  test("A stop leaves it with its runner, and does not wait for it", async () => {
    const { first, runner, other, atOther } = await startReplicas({ drainMs: NEVER_MS });
    const stream = await runner.subscribe();
    await first.accept();
    const call = await stream.next();
    const bystander = await other.connect().subscribe();
    const stopping = first.server.stop();
    expect(await atOther.extend([call])).toEqual([DONE]);
    await stopping;
    expect(await atOther.ack(call)).toEqual([DONE]);
    expect(bystander.calls).toEqual([]);
  });

  test("Renewed long before the stop or during it, it stays with its runner; any other is given back", async () => {
    const looks = vi.spyOn(stores[0].sharedLeases as SharedLeases, "look");
    const { first, runner, other, atOther } = await startReplicas({ drainMs: 10_000 });
    const stream = await runner.subscribe();
    for (let i = 0; i < 3; i++) await first.accept();
    const [early, late, neither] = [await stream.next(), await stream.next(), await stream.next()];
    await atOther.extend([early]);
    const next = looks.mock.calls.length;
    await until(() => looks.mock.settledResults[next]?.type === "fulfilled");
    const stopping = first.server.stop();
    await atOther.extend([late]);
    const bystander = await other.connect().subscribe();
    await stopping;
    expect(await bystander.next()).toMatchObject({ callId: neither.callId, attempt: 2 });
    expect(await atOther.ack(early, late, ...bystander.calls)).toEqual([DONE, DONE, DONE]);
    expect(bystander.calls).toHaveLength(1);
  });
});

test("A lease on a live stream runs out in its time although the database's clock goes back an hour", async () => {
  let backMs = 0;
  const url = await postgres.createDatabase();
  const store = await openReplica(url, {
    encodeJobCall,
    timeouts: PATIENT,
    clock: () => Date.now() - backMs,
  });
  onTestFinished(() => store.close());
  const { first, runner } = await startReplicas({ store, leaseMs: LEASE_MS });
  const stream = await runner.subscribe({ maxInFlight: 1 });
  const callId = BigInt(await first.accept());
  expect(await stream.next()).toMatchObject({ callId, attempt: 1 });
  backMs = 3_600_000;
  const again = await stream.next();
  expect(again).toMatchObject({ callId, attempt: 2 });
  expect(expired).toBe(1);
  expect(await runner.ack(again)).toEqual([DONE]);
});
