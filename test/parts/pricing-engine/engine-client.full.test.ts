import { createServer } from "node:net";
import { status } from "@grpc/grpc-js";
import { expect, onTestFinished, test } from "vitest";
import { EngineClient } from "../../../src/parts/pricing-engine/engine-client.ts";
import { freePort } from "../../helpers/free-port.ts";
import { startPricingEngine } from "../../helpers/pricing-engine.ts";
import { until } from "../../helpers/until.ts";

test("A recovered engine is found soon, also after a long outage", async () => {
  const engine = await startPricingEngine({ port: await freePort() });
  const client = new EngineClient(engine.url);
  onTestFinished(() => client.stop());
  const call = async () => {
    const deadline = new Date(Date.now() + 60_000);
    return (await client.call("getJobPrice", Buffer.alloc(0), { deadline })).status.code;
  };
  expect(await call()).toBe(status.INVALID_ARGUMENT);
  await engine.stop();

  let connects = 0;
  const down = createServer((socket) => {
    connects++;
    socket.destroy();
  });
  await new Promise<void>((resolve) => down.listen(engine.port, "127.0.0.1", resolve));
  // With waits that double the twentieth try would come after days.
  await until(async () => {
    expect(await call()).toBe(status.UNAVAILABLE);
    return connects >= 20;
  });
  await new Promise((resolve) => down.close(resolve));

  const back = await startPricingEngine({ port: engine.port });
  onTestFinished(() => back.stop());
  await expect.poll(call).toBe(status.INVALID_ARGUMENT);
});
