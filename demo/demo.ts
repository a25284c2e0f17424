// Runs jobgate with real parts: a chain, USDC, a facilitator, a paying client, a webhook sender and a runner. Checks
// each step, exits with 0 if all passed and with 1 otherwise, and removes its files.
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { accounts } from "../test/helpers/accounts.ts";
import { startAnvil } from "../test/helpers/anvil.ts";
import { startFacilitator } from "../test/helpers/facilitator.ts";
import { startJobgate } from "../test/helpers/jobgate-process.ts";
import { startRunner } from "../test/helpers/runner.ts";
import { deployUsdc } from "../test/helpers/usdc.ts";
import { demoConfig, PAID_JOB } from "./config.ts";
import { makeNarrator } from "./narrator.ts";
import { payForJob } from "./pay-for-job.ts";
import { sendWebhook } from "./send-webhook.ts";

const BUILT = new URL("../dist/main.js", import.meta.url);
const TIMEOUT_MS = 60_000;
const ALERTS_SECRET = "a secret that the sender and jobgate share";

/** Folder of the store. Removed at exit, also when jobgate is still starting. */
const folder = mkdtempSync(join(tmpdir(), "jobgate-demo-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));

/** Started parts, newest last. */
const running: { stop(): Promise<unknown> }[] = [];

async function demo(): Promise<void> {
  assert.ok(existsSync(BUILT), "dist/main.js does not exist: use npm run demo, which builds it");
  const narrator = makeNarrator();
  const started = <Part extends { stop(): Promise<unknown> }>(part: Part): Part => {
    running.push(part);
    return part;
  };

  narrator.step("A chain with USDC, and a facilitator that settles payments on it");
  const anvil = started(await startAnvil());
  const usdc = await deployUsdc({ anvil });
  await usdc.mint(accounts.payer.address, 100_000_000n);
  const facilitator = started(await startFacilitator({ anvil }));
  narrator.table({
    chain: `${anvil.rpcUrl} (anvil, as Base Sepolia, eip155:${anvil.chainId})`,
    USDC: `${usdc.address} (Circle's own contract)`,
    facilitator: facilitator.url,
  });

  narrator.step("jobgate as a process: dist/main.js serve");
  const config = demoConfig({
    facilitatorUrl: facilitator.url,
    rpcUrl: anvil.rpcUrl,
    usdcAddress: usdc.address,
    payToAddress: accounts.payTo.address,
  });
  const jobgate = started(await startJobgate({ config, env: { ALERTS_SECRET }, folder, from: "build" }));
  narrator.table(Object.fromEntries(jobgate.listeners));

  narrator.step("A runner subscribes and waits for work");
  const runner = started(
    await startRunner({
      address: jobgate.runnerAddress,
      subscriber: "demo-runner",
      handle: ({ body }) => ({ body: inCapitals(body), contentType: "text/plain" }),
    }),
  );
  narrator.say("It returns each job's body in capital letters.");

  const url = `${jobgate.x402Url}/x402/jobs/${PAID_JOB.serviceId}/${PAID_JOB.jobIndex}`;
  await payForJob({ narrator, url, usdc, runner });
  await sendWebhook({ narrator, webhooksUrl: jobgate.webhooksUrl, secret: ALERTS_SECRET, runner });

  narrator.step("Stop jobgate");
  await runner.stop();
  jobgate.kill("SIGTERM");
  const { code, signal } = await jobgate.exited;
  assert.equal(code, 0, `jobgate ended with ${signal ?? `code ${code}`}:\n${jobgate.logs.join("\n")}`);
  narrator.check("it drained and exited with 0");
}

function inCapitals(text: Uint8Array): Uint8Array {
  return Buffer.from(Buffer.from(text).toString().toUpperCase());
}

/** Stops all started parts, newest first. */
async function stopAll(): Promise<void> {
  for (const part of running.splice(0).reverse()) await part.stop();
}

async function outOfTime(): Promise<never> {
  await sleep(TIMEOUT_MS, undefined, { ref: false });
  throw new Error(`the demo took over ${TIMEOUT_MS / 1000} s`);
}

async function interrupted(): Promise<never> {
  const signal = await Promise.race(
    ["SIGINT", "SIGTERM"].map((name) => once(process, name).then(() => name)),
  );
  throw new Error(`interrupted by ${signal}`);
}

try {
  await Promise.race([demo(), outOfTime(), interrupted()]);
  console.log("\nAll checks passed.");
} catch (error) {
  console.error(`\nThe demo failed: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  await stopAll();
}
// A step that hangs must not keep the process alive.
process.exit();
