// Runs `jobgate dev` with a runner and an HTTP API of its own, buys a job and a request of the API, and sends a webhook. Checks each step, and exits with 0 if all
// passed and with 1 otherwise.
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { processEnded, spawnTethered } from "../src/node/tethered-process.ts";
import { startRunner } from "../test/helpers/runner.ts";
import { buyFromApi, startApi } from "./buy-from-api.ts";
import { makeNarrator } from "./narrator.ts";
import { payForJob } from "./pay-for-job.ts";
import { sendWebhook } from "./send-webhook.ts";

const BUILT = fileURLToPath(new URL("../dist/main.js", import.meta.url));
const TIMEOUT_MS = 60_000;

/** Addresses and keys, as `jobgate dev --json` prints them. */
export interface Sandbox {
  readonly job_url: string;
  readonly api_url: string;
  readonly webhook_url: string;
  readonly webhook_secret: string;
  readonly operator_url: string;
  readonly runner_address: string;
  readonly rpc_url: string;
  readonly token: string;
  readonly pay_to: string;
  readonly payer: string;
  readonly payer_key: `0x${string}`;
}

/** Started parts, newest last. */
const running: { stop(): Promise<unknown> }[] = [];

async function demo(): Promise<void> {
  assert.ok(existsSync(BUILT), "dist/main.js does not exist: use npm run demo, which builds it");
  const narrator = makeNarrator();

  const api = await startApi();
  running.push(api);

  narrator.step("jobgate dev: a chain with USDC, a facilitator that settles on it, and jobgate");
  const args = [
    BUILT,
    "dev",
    "--free-ports",
    "--no-runner",
    "--api",
    api.url,
    "--json",
    "--log-level",
    "warn",
  ];
  const jobgate = spawnTethered({ command: process.execPath, args });
  jobgate.stderr.pipe(process.stderr);
  const stop = async () => {
    jobgate.kill("SIGTERM");
    await processEnded(jobgate);
  };
  running.push({ stop });
  const [printed] = (await once(jobgate.stdout, "data")) as [Buffer];
  const sandbox = JSON.parse(printed.toString()) as Sandbox;
  narrator.table({
    chain: `${sandbox.rpc_url} (anvil, as Base Sepolia)`,
    USDC: sandbox.token,
    job: sandbox.job_url,
    API: `${sandbox.api_url}, in front of ${api.url}`,
    webhook: sandbox.webhook_url,
    "operator page": sandbox.operator_url,
  });

  narrator.step("A runner subscribes and waits for work");
  const runner = await startRunner({
    address: sandbox.runner_address,
    subscriber: "demo-runner",
    handle: ({ body }) => ({
      body: Buffer.from(Buffer.from(body).toString().toUpperCase()),
      contentType: "text/plain",
    }),
  });
  running.push(runner);
  narrator.say("It returns each job's body in capital letters.");

  await payForJob({ narrator, sandbox, runner });
  await buyFromApi({ narrator, sandbox });
  await sendWebhook({ narrator, sandbox, runner });

  narrator.step("Stop jobgate");
  await runner.stop();
  await stop();
  assert.equal(jobgate.exitCode, 0, `jobgate ended with ${jobgate.signalCode ?? `code ${jobgate.exitCode}`}`);
  narrator.check("it drained and exited with 0");
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
  for (const part of running.reverse()) await part.stop();
}
// A step that hangs must not keep the process alive.
process.exit();
