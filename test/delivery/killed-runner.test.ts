import { expect, test } from "vitest";
import { until } from "../helpers/until.ts";
import { openStoreWithClock, startDelivery } from "./harness.ts";
import { spawnRunner } from "./spawn-runner.ts";

test("The work of a killed runner goes to another long before its leases end", async () => {
  const { store, address, accept, connect } = await startDelivery({ leaseMs: 600_000 });
  const victim = await spawnRunner(address);
  for (let index = 0; index < 5; index++) await accept();
  await until(() => victim.callIds.length === 5);

  const survivor = connect();
  const stream = await survivor.subscribe();
  victim.signal("SIGKILL");
  for (let index = 0; index < 5; index++) {
    const call = await stream.next();
    expect(call.attempt).toBe(2);
    await survivor.ack(call);
  }
  expect(stream.calls.map((call) => String(call.callId)).toSorted()).toEqual(victim.callIds.toSorted());
  expect((await store.totals()).calls).toMatchObject({ ready: 0, leased: 0, dead: 0 });
});

test("A JobCall whose runners were all killed becomes a dead letter while no runner is connected", async () => {
  const { store, endLeases } = await openStoreWithClock();
  const { address, accept, connect } = await startDelivery({ store, maxAttempts: 2 });
  const callId = await accept();
  for (let attempt = 1; attempt <= 2; attempt++) {
    const victim = await spawnRunner(address);
    await until(() => victim.callIds.length === 1);
    expect((await store.totals()).calls).toMatchObject({ leased: 1, dead: 0 });
    victim.signal("SIGKILL");
    await until(async () => (await store.totals()).calls.leased === 0);
  }
  endLeases();
  await until(async () => (await store.totals()).calls.dead === 1);
  expect(await store.findDeadLetter(callId)).toMatchObject({ attempts: 2, reason: "max_attempts" });
  // Nothing is left of it for the next runner.
  const late = await connect().subscribe();
  await accept({ body: Buffer.from("next") });
  expect(Buffer.from((await late.next()).body).toString()).toBe("next");
});

test("A JobCall whose last lease ran out becomes a dead letter while no runner is connected", async () => {
  const { store, accept } = await startDelivery({ maxAttempts: 1 });
  const callId = await accept();
  // As left behind by a killed jobgate: the call is on no stream of this one.
  await store.claim({ limit: 1, jobIds: [], leaseMs: 300, maxAttempts: 1, subscriber: "gone" });
  await until(async () => (await store.findDeadLetter(callId)) !== undefined);
});
