import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { processEnded, spawnTethered } from "../helpers/tethered-process.ts";
import { startDelivery } from "./harness.ts";

test("Each Ack is answered within 2 s while and after 200,000 streams are reset", async () => {
  const { address, accept, connect } = await startDelivery();
  const runner = connect();
  const stream = await runner.subscribe();
  const script = fileURLToPath(new URL("../helpers/flood-process.ts", import.meta.url));
  const args = ["--import", "tsx", script, address, "/jobgate.v1.RunnerService/Ack", "200000"];
  const flood = spawnTethered({ command: process.execPath, args });
  onTestFinished(async () => {
    flood.kill("SIGKILL");
    await processEnded(flood);
  });
  let isOver = false;
  void once(flood.stdout, "data").then(() => {
    isOver = true;
  });
  const delays: number[] = [];
  for (let after = 0; after < 2; after += isOver ? 1 : 0) {
    await accept();
    const call = await stream.next();
    const startedAt = performance.now();
    await runner.ack(call);
    delays.push(performance.now() - startedAt);
  }
  expect(Math.max(...delays)).toBeLessThan(2_000);
});
