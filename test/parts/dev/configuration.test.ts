import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inspect } from "node:util";
import { expect, test, vi } from "vitest";
import { configOf, ownConfig, PAYEE } from "../../../src/parts/dev/configuration.ts";
import { testFolder } from "../../helpers/test-folder.ts";

const RPC_URL = "http://127.0.0.1:8545/";
const PAY_TO = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const JOB = `[[jobs]]
job_index = 0
name = "shout"
mode = "public_paid"
price = "$0.01"
`;
const SALE = `[x402]
bind_address = "127.0.0.1:8402"
public_url = "https://jobs.example.com"
facilitator_url = "https://facilitator.example.com"
title = "Shouts"

[[x402.accepted_tokens]]
token = "USDC"
network = "base"
pay_to = "${PAY_TO}"
rpc_url = "https://mainnet.base.org"
`;
const PORTS = { x402: 1402, runner: 1403, operator: 1405, webhooks: 1090, chain: 1545 };

/** Returns the configuration that `jobgate dev -c` runs for a file. */
async function inSandbox(toml: string, ports?: typeof PORTS) {
  const folder = await testFolder();
  const file = join(folder, "jobgate.toml");
  await writeFile(file, toml);
  return configOf(await ownConfig({ folder, rpcUrl: RPC_URL, file, ports }));
}

test("jobgate dev sells the jobs of a configuration for play money alone, to its first address", async () => {
  const { x402, store } = await inSandbox(`${SALE}\n${JOB}`);
  expect(x402?.jobs?.map(({ name }) => name)).toEqual(["shout"]);
  expect(x402?.title).toBe("Shouts");
  expect(x402?.bindAddress).toMatchObject({ port: 8402 });
  expect(x402?.publicUrl).toBe("http://127.0.0.1:8402");
  expect(x402?.acceptedTokens.map(({ network, payTo, rpcUrl }) => ({ network, payTo, rpcUrl }))).toEqual(
    Array(2).fill({ network: "eip155:84532", payTo: PAY_TO, rpcUrl: RPC_URL }),
  );
  expect(inspect(x402?.facilitators, { depth: 9 })).not.toContain("example.com");
  expect(store.url).toMatch(/^sqlite:.*jobgate\.db$/);
});

test("jobgate dev leaves the webhooks and the paths of a configuration as they are", async () => {
  vi.stubEnv("HOOK_SECRET", "a-secret-of-the-test");
  const { x402, webhooks } = await inSandbox(`[webhooks]
bind_address = "127.0.0.1:9090"

[[webhooks.endpoints]]
path = "/hooks/alerts"
job_id = 7
auth = "bearer"
secret = "env:HOOK_SECRET"
`);
  expect(x402).toBeUndefined();
  expect(webhooks?.endpoints).toMatchObject([{ path: "/hooks/alerts", jobId: 7n }]);
});

test("jobgate dev with --free-ports replaces every address of a configuration", async () => {
  const { x402, runner, operator } = await inSandbox(`${SALE}\n${JOB}`, PORTS);
  expect([x402, runner, operator].map((one) => one?.bindAddress)).toMatchObject([
    { port: PORTS.x402 },
    { port: PORTS.runner },
    { port: PORTS.operator },
  ]);
});

test("jobgate dev pays its own account for a sale whose token is not on an EVM chain", async () => {
  const solana = SALE.replace('"base"', '"solana"').replace(
    PAY_TO,
    "7v91N7iZ9mNicL8WfG6cgSCKyRXydQjLh6UYBWwm6y1Q",
  );
  const { x402 } = await inSandbox(`${solana}\n${JOB}`);
  expect(x402?.acceptedTokens[0]?.payTo).toBe(PAYEE);
});

test("jobgate dev refuses a configuration whose sale is in a file of its own, and names the table", async () => {
  await expect(inSandbox('x402 = "x402.toml"\n')).rejects.toThrow(
    "x402 is in a file of its own; expected the table [x402] in this file",
  );
});
