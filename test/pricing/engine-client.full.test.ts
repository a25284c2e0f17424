import { setTimeout as sleep } from "node:timers/promises";
import { status } from "@grpc/grpc-js";
import { expect, onTestFinished, test } from "vitest";
import { EngineClient } from "../../src/pricing/engine-client.ts";
import { startPricingEngine } from "../helpers/pricing-engine.ts";

test("A recovered engine is found within a second, also after a long outage", async () => {
  const engine = await startPricingEngine();
  const client = new EngineClient(engine.url);
  onTestFinished(() => client.stop());
  const call = async () => {
    const deadline = new Date(Date.now() + 5_000);
    return (await client.call("getJobPrice", Buffer.alloc(0), { deadline })).status.code;
  };
  expect(await call()).toBe(status.INVALID_ARGUMENT);
  await engine.stop();
  const downAt = performance.now();
  while (performance.now() - downAt < 15_000) {
    expect(await call()).toBe(status.UNAVAILABLE);
    await sleep(50);
  }
  const back = await startPricingEngine({ port: engine.port });
  onTestFinished(() => back.stop());
  const backAt = performance.now();
  let code: status;
  do {
    code = await call();
  } while (code === status.UNAVAILABLE && performance.now() - backAt < 10_000);
  const tookMs = performance.now() - backAt;
  console.log(`answered ${tookMs.toFixed(0)} ms after its return`);
  expect(code).toBe(status.INVALID_ARGUMENT);
  expect(tookMs).toBeLessThan(1_000);
});
