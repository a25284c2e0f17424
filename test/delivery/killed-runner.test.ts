import { expect, test } from "vitest";
import { startDelivery, until } from "./harness.ts";
import { spawnRunner } from "./spawn-runner.ts";

test("Of two runners one is killed: all its work goes to the other at once, and all is done once acked", async () => {
  const { store, address, accept, connect } = await startDelivery();
  const victim = await spawnRunner(address);
  for (let index = 0; index < 5; index++) await accept();
  await until(() => victim.callIds.length === 5);

  const survivor = connect();
  const stream = await survivor.subscribe();
  const killedAt = performance.now();
  victim.signal("SIGKILL");
  for (let index = 0; index < 5; index++) {
    const call = await stream.next();
    expect(call.attempt).toBe(2);
    await survivor.ack(call);
  }
  expect(performance.now() - killedAt).toBeLessThan(2_000);
  expect(stream.calls.map((call) => String(call.callId))).toEqual(victim.callIds);
  expect((await store.totals()).calls).toMatchObject({ ready: 0, leased: 0, dead: 0 });
});
