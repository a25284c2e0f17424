import { expect, test } from "vitest";
import type { Subscription } from "../../src/delivery/subscription.ts";
import type { ClaimedCall } from "../../src/store/contract/work-queue.ts";
import { until } from "../helpers/until.ts";
import { startDelivery } from "./harness.ts";

const JOB = 8n;

/**
 * Accepts JobCalls, and opens the stream of a runner in this process, which takes one of them and never finishes it.
 * @param options `isSent` false: the runner has no connection yet
 */
async function startOwnRunner(calls: number, { isSent = true } = {}) {
  const delivery = await startDelivery({ drainMs: 10 });
  for (let n = 0; n < calls; n++) await delivery.accept({ jobId: JOB });
  const taken: ClaimedCall[] = [];
  const sink = {
    carriesOutcomes: true,
    countsStops: true,
    write(call: ClaimedCall, onWritten: () => void) {
      taken.push(call);
      if (isSent) onWritten();
      return false;
    },
    endForShutdown: () => undefined,
  };
  const request = {
    ...{ subscriber: "own", maxInFlight: 2, jobIds: [JOB], ackOnSend: false },
    ...{ reserves: true, leaseMs: 1_000 },
  };
  const subscription = delivery.server.dispatcher.subscribe(request, sink) as Subscription;
  return { ...delivery, taken, subscription };
}

test("A JobCall that was written when jobgate stopped was an attempt, and a JobCall that waited was not", async () => {
  const { store, server, taken, subscription } = await startOwnRunner(2);
  await until(() => taken.length === 1 && subscription.inFlight === 2);
  await server.stop();
  const { calls } = await store.claim({
    ...{ limit: 2, jobIds: [JOB], leaseMs: 1_000, maxAttempts: 10, subscriber: "next" },
  });
  expect(calls.map(({ attempt, forgiven }) => [attempt, forgiven])).toEqual([
    [2, 0],
    [2, 1],
  ]);
});

test("A stream may have shorter leases than others", async () => {
  const { accept, connect, taken } = await startOwnRunner(1);
  const other = await connect().subscribe({ jobIds: [9n] });
  await accept({ jobId: 9n });
  await until(() => taken.length === 1 && other.calls.length === 1);
  const [own] = taken;
  expect((own?.leaseExpiresAt ?? 0) - Date.now()).toBeLessThan(1_001);
  expect(Number(other.calls[0]?.leaseExpiresAt?.seconds) * 1_000 - Date.now()).toBeGreaterThan(50_000);
});

test("A JobCall that had no connection yet when jobgate stopped was no attempt", async () => {
  const { store, server, taken } = await startOwnRunner(1, { isSent: false });
  await until(() => taken.length === 1);
  await server.stop();
  const { calls } = await store.claim({
    ...{ limit: 1, jobIds: [JOB], leaseMs: 1_000, maxAttempts: 10, subscriber: "next" },
  });
  expect(calls.map(({ attempt, forgiven }) => [attempt, forgiven])).toEqual([[2, 1]]);
});
