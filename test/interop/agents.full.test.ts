import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { ONE_PAID_JOB, watchLedger } from "../e2e/ledger.ts";
import { startPaidGateway } from "../e2e/paid-gateway.ts";
import { startPaidParts } from "../e2e/paid-parts.ts";
import { accounts } from "../helpers/accounts.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";

// Installed apart, by `npm ci --prefix test/interop/agents`.
const CLIENTS = fileURLToPath(new URL("agents/", import.meta.url));

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startPaidGateway({ parts, setUp: "rpc_url" }));

/** Runs a module where the official clients are installed, with `url` and `account` in scope. @returns what it prints */
async function run(script: string, url: string, env: Record<string, string> = {}): Promise<unknown> {
  return JSON.parse(await runText(script, url, env));
}

async function runText(script: string, url: string, env: Record<string, string> = {}): Promise<string> {
  const head = `
import { privateKeyToAccount } from "viem/accounts";
const account = privateKeyToAccount(process.env.KEY);
const url = process.env.URL;
`;
  const child = spawn("node", ["--input-type=module", "--eval", head + script], {
    cwd: CLIENTS,
    env: { ...process.env, ...env, KEY: accounts.payer.privateKey, URL: url },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  const [stdout, stderr, status] = await Promise.all([text(child.stdout), text(child.stderr), exited]);
  if (status !== 0) throw new Error(stdout + stderr);
  return stdout;
}

const MPPX = `
import { Credential, Method, Receipt, z } from "mppx";
import { Mppx } from "mppx/client";
import { charge } from "mppx/evm/client";

const evm = charge({ account, authorization: { name: "USDC", version: "2" } });
/** An x402 payment of version 1 in a credential. */
const blueprintevm = Method.toClient(
  Method.from({
    name: "blueprintevm",
    intent: "charge",
    schema: { credential: { payload: z.object({ x402_payload: z.string() }) }, request: z.object({}) },
  }),
  {
    async createCredential({ challenge }) {
      const { amount, currency, recipient, methodDetails } = challenge.request;
      const chainId = Number(methodDetails.network.split(":")[1]);
      const authorization = {
        from: account.address,
        to: recipient,
        value: amount,
        validAfter: "0",
        validBefore: String(Math.floor(Date.parse(challenge.expires) / 1000)),
        nonce: "0x" + Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex"),
      };
      const signature = await account.signTypedData({
        domain: { ...methodDetails.extra, chainId, verifyingContract: currency },
        types: {
          TransferWithAuthorization: [
            { name: "from", type: "address" },
            { name: "to", type: "address" },
            { name: "value", type: "uint256" },
            { name: "validAfter", type: "uint256" },
            { name: "validBefore", type: "uint256" },
            { name: "nonce", type: "bytes32" },
          ],
        },
        primaryType: "TransferWithAuthorization",
        message: authorization,
      });
      const payload = { x402Version: 1, scheme: "exact", network: "base-sepolia", payload: { signature, authorization } };
      const x402_payload = Buffer.from(JSON.stringify(payload)).toString("base64url");
      return Credential.serialize(Credential.from({ challenge, payload: { x402_payload } }));
    },
  },
);
const mppx = Mppx.create({ methods: [evm, blueprintevm], polyfill: false });
const response = await mppx.fetch(url, { method: "POST", body: "by mppx" });
const receipt = response.headers.get("payment-receipt");
console.log(JSON.stringify({
  status: response.status,
  receipt: receipt && Receipt.deserialize(receipt),
  body: await response.json(),
}));
`;

it.each(["evm", "blueprintevm"] as const)("mppx buys a job by %s", async (method) => {
  const before = gateway.jobsWith("by mppx").length;
  const expectChanges = await watchLedger(parts, gateway);
  expect(await run(MPPX, gateway.at(method).urlOf())).toMatchObject({
    status: 202,
    receipt: { status: "success", method, reference: expect.stringMatching(/^0x[0-9a-f]{64}$/) },
    body: { status: "accepted", call_id: expect.any(Number) },
  });
  await gateway.waitForJobs("by mppx", before + 1);
  await expectChanges(ONE_PAID_JOB);
});

const MCP = `
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
const client = new Client({ name: "agent", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const [{ name }] = (await client.listTools()).tools;
`;

const WITH_MPPX = `
import { McpClient } from "mppx/mcp/client";
import { charge } from "mppx/evm/client";
McpClient.wrap(client, { methods: [charge({ account, authorization: { name: "USDC", version: "2" } })] });
const result = await client.callTool({ name, arguments: { body: "by mppx over MCP" } });
await client.close();
console.log(JSON.stringify(result));
`;

it("mppx's MCP client buys a job", async () => {
  const expectChanges = await watchLedger(parts, gateway);
  const result = await run(MCP + WITH_MPPX, `${gateway.jobgate.x402Url}/mcp`);
  expect(result).toMatchObject({ content: [], receipt: { status: "success", method: "evm" } });
  await gateway.waitForJobs("by mppx over MCP");
  await expectChanges(ONE_PAID_JOB);
});

/** Scenarios that need no tools, prompts or resources of the suite's own. */
const SCENARIOS = ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"];

it.each(SCENARIOS)("The MCP conformance suite passes: %s", async (scenario) => {
  // Node 20 has no globSync, which only the suite's other commands use.
  const suite = `
import { readFileSync, writeFileSync } from "node:fs";
const folder = "node_modules/@modelcontextprotocol/conformance/dist/";
const text = readFileSync(folder + "index.js", "utf8").replace(/globSync as [a-z]+,/, "");
writeFileSync(folder + "for-node-20.js", text);
process.argv.splice(1, Infinity, "server", "--url", url, "--scenario", ${JSON.stringify(scenario)});
await import(process.cwd() + "/" + folder + "for-node-20.js");
`;
  const printed = await runText(suite, `${gateway.jobgate.x402Url}/mcp`);
  expect(printed).toMatch(/Passed: [1-9][0-9]*\/[0-9]+, 0 failed/);
});
