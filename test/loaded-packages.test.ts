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

/** Packages, files and threads of a program that was started. */
interface Loaded {
  readonly packages: readonly string[];
  /** Number of files. */
  readonly files: number;
  /** Number of threads that run JavaScript. */
  readonly threads: number;
}

async function startedWith(config: string): Promise<Loaded> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-loaded-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  // When Node ends, it writes the scripts that it has run to this folder.
  const jobgate = await startJobgate({ config, from: "build", env: { NODE_V8_COVERAGE: folder } });
  jobgate.kill();
  await jobgate.exited;
  await jobgate.stop();
  const urls = new Set<string>();
  const ofThreads = await readdir(folder);
  for (const file of ofThreads) {
    const { result } = JSON.parse(await readFile(join(folder, file), "utf8"));
    for (const { url } of result) if (url.startsWith("file:")) urls.add(url);
  }
  const texts = await Promise.all([...urls].map((url) => readFile(new URL(url), "utf8")));
  // A bundle names the file before its code.
  const paths = [...urls, ...texts.flatMap((text) => text.match(/^\/\/!? node_modules\/.*$/gm) ?? [])];
  const names = paths.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []);
  return { packages: [...new Set(names)], files: urls.size, threads: ofThreads.length };
}

test("A gateway with webhooks alone loads nothing of what sells jobs, and no library before it is used", async () => {
  const { packages, files } = await startedWith(WEBHOOKS_CONFIG);
  expect(packages).toContain("@grpc/grpc-js");
  expect(packages.filter((name) => NEVER_AT_START.test(name) || FOR_SALES.includes(name))).toEqual([]);
  // Each file costs a millisecond.
  expect(files).toBeLessThan(70);
});

const ON_SOLANA = `[[x402.accepted_tokens]]
token = "USDC"
network = "solana-devnet"
pay_to = "9kXF1MqWfXSTJwQmtWJHqGhtCvUiPwEkgZSUBYY4qVpc"
rpc_url = "http://127.0.0.1:9"
`;

test("A gateway that sells jobs in tokens on an EVM chain and on Solana loads no library before it is used, and none of buyers", async () => {
  const { packages, files, threads } = await startedWith(`${SALES_CONFIG}${ON_SOLANA}${CLOSED_FACILITATOR}`);
  expect(packages).toContain("viem");
  expect(packages.filter((name) => NEVER_AT_START.test(name) || OF_BUYERS.includes(name))).toEqual([]);
  expect(files).toBeLessThan(120);
  // The main thread, and the store's threads for writes and for lookups: none for operators, who have not asked.
  expect(threads).toBe(3);
});
