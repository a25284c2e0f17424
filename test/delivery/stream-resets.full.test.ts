import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { onTestFinished, test } from "vitest";
import { processEnded, spawnTethered } from "../../src/node/tethered-process.ts";
import { startDelivery } from "./harness.ts";

test("Acks are answered while 200,000 streams are reset, and after that", async () => {
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
  const finishOne = async () => {
    await accept();
    await runner.ack(await stream.next());
  };
  while (!isOver) await finishOne();
  await finishOne();
});
