import { expect, test } from "vitest";
import { until } from "../helpers/until.ts";
import { startDelivery } from "./harness.ts";
import { spawnRunner } from "./spawn-runner.ts";

test("Keepalive cuts the connection of a frozen runner, and its work moves on before the lease ends", async () => {
  const { address, accept, connect } = await startDelivery({ keepalive: { timeMs: 500, timeoutMs: 10_000 } });
  const frozen = await spawnRunner(address);
  await accept();
  await until(() => frozen.callIds.length === 1);
  const stream = await connect().subscribe();
  frozen.signal("SIGSTOP");
  expect(await stream.next()).toMatchObject({ attempt: 2 });
});

test("Without a keepalive, the lease of a frozen runner runs out and its work moves on", async () => {
  const { address, accept, connect } = await startDelivery({
    leaseMs: 1_000,
    maxAttempts: 1_000,
    keepalive: { timeMs: 3_600_000, timeoutMs: 3_600_000 },
  });
  const frozen = await spawnRunner(address);
  const callId = await accept();
  await until(() => frozen.callIds.length > 0);
  frozen.signal("SIGSTOP");
  const stream = await connect().subscribe();
  expect((await stream.next()).callId).toBe(BigInt(callId));
});
