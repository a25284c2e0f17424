import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startJobgate } from "./helpers/jobgate-process.ts";
import { CLOSED_FACILITATOR, SALES_CONFIG, WEBHOOKS_CONFIG } from "./helpers/small-configs.ts";

/**
 * Libraries that wait for the first call of the operator's API, the first request to a push target or callback, Postgres, or
 * for traces that the environment asks for.
 */
const NEVER_AT_START = /^(?:@connectrpc\/connect(?:-node)?|pg|undici|@opentelemetry\/(?:sdk|exporter)-.*)$/;
/** Libraries that buyers on Solana use. */
const OF_BUYERS = ["@solana/kit", "@x402/svm"];
const FOR_SALES = ["@x402/core", "@x402/evm", "abitype", "viem"];

/** Starts the built program, and returns the packages whose code it has loaded by then. */
async function packagesLoadedBy(config: string): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-loaded-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  // When Node ends, it writes the scripts that it has run to this folder.
  const jobgate = await startJobgate({ config, from: "build", env: { NODE_V8_COVERAGE: folder } });
  jobgate.kill();
  await jobgate.exited;
  await jobgate.stop();
  const urls = new Set<string>();
  for (const file of await readdir(folder)) {
    const { result } = JSON.parse(await readFile(join(folder, file), "utf8"));
    for (const { url } of result) if (url.startsWith("file:")) urls.add(url);
  }
  const texts = await Promise.all([...urls].map((url) => readFile(new URL(url), "utf8")));
  // A bundle names the file before its code.
  const files = [...urls, ...texts.flatMap((text) => text.match(/^\/\/ node_modules\/.*$/gm) ?? [])];
  return [...new Set(files.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []))];
}

test("A gateway with webhooks alone loads nothing of what sells jobs, and no library before it is used", async () => {
  const loaded = await packagesLoadedBy(WEBHOOKS_CONFIG);
  expect(loaded).toContain("@grpc/grpc-js");
  expect(loaded.filter((name) => NEVER_AT_START.test(name) || FOR_SALES.includes(name))).toEqual([]);
});

const ON_SOLANA = `[[x402.accepted_tokens]]
token = "USDC"
network = "solana-devnet"
pay_to = "9kXF1MqWfXSTJwQmtWJHqGhtCvUiPwEkgZSUBYY4qVpc"
rpc_url = "http://127.0.0.1:9"
`;

test("A gateway that sells jobs in tokens on an EVM chain and on Solana loads no library before it is used, and none of buyers", async () => {
  const loaded = await packagesLoadedBy(`${SALES_CONFIG}${ON_SOLANA}${CLOSED_FACILITATOR}`);
  expect(loaded).toContain("viem");
  expect(loaded.filter((name) => NEVER_AT_START.test(name) || OF_BUYERS.includes(name))).toEqual([]);
});
