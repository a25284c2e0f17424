import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { accounts } from "../helpers/accounts.ts";

// Installed apart, by `npm ci --prefix test/interop/agents`.
const CLIENTS = fileURLToPath(new URL("agents/", import.meta.url));

/**
 * Runs a module where the official clients are installed, with `url` and `account` in scope, and with `tell`, which
 * prints a line of JSON.
 * @returns what it tells. Throws with what it printed if it fails.
 */
export async function* runAgent(script: string, url: string): AsyncGenerator<unknown, void> {
  const head = `
import { privateKeyToAccount } from "viem/accounts";
const account = privateKeyToAccount(process.env.KEY);
const url = process.env.URL;
const tell = (value) => console.log(JSON.stringify(value));
`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", head + script], {
    cwd: CLIENTS,
    env: { ...process.env, KEY: accounts.payer.privateKey, URL: url },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  const stderr = text(child.stderr);
  try {
    for await (const line of createInterface({ input: child.stdout })) yield JSON.parse(line);
    if ((await exited) !== 0) throw new Error(await stderr);
  } finally {
    child.kill("SIGKILL");
  }
}

/** Runs a module that tells one thing. */
export async function askAgent(script: string, url: string): Promise<unknown> {
  const told: unknown[] = [];
  for await (const value of runAgent(script, url)) told.push(value);
  if (told.length !== 1) throw new Error(`the agent told ${JSON.stringify(told)}: expected one thing`);
  return told[0];
}

/** The official client of MCP, connected as `client`, and the first tool's `name`. */
export const MCP_CLIENT = `
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
const client = new Client({ name: "agent", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const [{ name }] = (await client.listTools()).tools;
`;

/** The second version of the official client of MCP, which needs no session, connected as `client`, and the first tool's `name`. */
export const STATELESS_MCP_CLIENT = `
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
const client = new Client({ name: "agent", version: "1" }, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const [{ name }] = (await client.listTools()).tools;
`;

/** The official client of x402: `pay` makes the payment that a tool asks for. */
export const X402_CLIENT = `
import { x402Client } from "@x402/core/client";
import { ExactEvmScheme } from "@x402/evm/exact/client";
const x402 = new x402Client().register("eip155:*", new ExactEvmScheme(account));
// The client that comes with that of axios is older, and spends without a limit.
x402.setSpendControls?.(false);
async function pay(args) {
  const { structuredContent: asked } = await client.callTool({ name, arguments: args });
  const payment = await x402.createPaymentPayload(asked);
  return { name, arguments: args, _meta: { "x402/payment": payment } };
}
`;

/** The official client of A2A as `client`, in the version of `only` if that is set, and that of x402, which pays for tasks. */
export const A2A_CLIENT = (only: string | undefined) => `
import { Role, TaskState } from "@a2a-js/sdk";
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, ServiceParameters, withA2AExtensions } from "@a2a-js/sdk/client";
import { x402Client } from "@x402/core/client";
import { ExactEvmScheme } from "@x402/evm/exact/client";
const legacyCompat = { enabled: true };
const factory = new ClientFactory({ transports: [new JsonRpcTransportFactory({ legacyCompat })], cardResolver: new DefaultAgentCardResolver({ legacyCompat }) });
const card = await new DefaultAgentCardResolver().resolve(url);
const only = ${JSON.stringify(only)};
const supportedInterfaces = card.supportedInterfaces.filter(({ protocolVersion }) => only === undefined || protocolVersion === only);
const client = await factory.createFromAgentCard({ ...card, supportedInterfaces });
const [extension] = card.capabilities.extensions;
const options = { serviceParameters: ServiceParameters.create(withA2AExtensions(extension.uri)) };
const x402 = new x402Client().register("eip155:*", new ExactEvmScheme(account));
x402.setSpendControls?.(false);
const messageOf = (text, more) => ({
  tenant: "",
  message: {
    messageId: crypto.randomUUID(), contextId: "", taskId: "", role: Role.ROLE_USER, extensions: [extension.uri], referenceTaskIds: [],
    parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" }], metadata: undefined, ...more,
  },
  configuration: undefined, metadata: undefined,
});
const skillId = card.skills[0].id;
const ask = (text) => client.sendMessage(messageOf(text, { metadata: { skillId } }), options);
const metadataOf = (task) => task.status.message.metadata;
async function paymentFor(task) {
  const payload = await x402.createPaymentPayload(metadataOf(task)["x402.payment.required"]);
  const metadata = { "x402.payment.status": "payment-submitted", "x402.payment.payload": payload };
  return messageOf("Here is the payment.", { taskId: task.id, metadata });
}
`;
