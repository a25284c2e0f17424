import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { ONE_PAID_JOB, watchLedger } from "../e2e/ledger.ts";
import { withReceipts } from "../e2e/paid-config.ts";
import { startPaidGateway } from "../e2e/paid-gateway.ts";
import { startPaidParts } from "../e2e/paid-parts.ts";
import { accounts } from "../helpers/accounts.ts";
import { startFaultProxy } from "../helpers/http-proxy.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { testFolder } from "../helpers/test-folder.ts";
import { startRun } from "../runner/start-run.ts";
import { askAgent, MCP_CLIENT, runAgent, STATELESS_MCP_CLIENT, X402_CLIENT } from "./agents.ts";
import { buyTool, preparePythonClients } from "./api-clients.ts";

/** Length of the job that outlives jobgate. */
const LONG_JOB_SECS = Number(process.env.JOBGATE_MCP_TASK_SECS ?? 2);

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startPaidGateway({ parts, setUp: "rpc_url", edit: withReceipts }));

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
tell({
  status: response.status,
  receipt: receipt && Receipt.deserialize(receipt),
  body: await response.json(),
});
`;

it.each(["evm", "blueprintevm"] as const)("mppx buys a job by %s", async (method) => {
  const before = gateway.jobsWith("by mppx").length;
  const expectChanges = await watchLedger(parts, gateway);
  expect(await askAgent(MPPX, gateway.at(method).urlOf())).toMatchObject({
    status: 202,
    receipt: { status: "success", method, reference: expect.stringMatching(/^0x[0-9a-f]{64}$/) },
    body: { status: "accepted", call_id: expect.any(Number) },
  });
  await gateway.waitForJobs("by mppx", before + 1);
  await expectChanges(ONE_PAID_JOB);
});

const WITH_MPPX = `
import { McpClient } from "mppx/mcp/client";
import { charge } from "mppx/evm/client";
McpClient.wrap(client, { methods: [charge({ account, authorization: { name: "USDC", version: "2" } })] });
const result = await client.callTool({ name, arguments: { body: "by mppx over MCP" } });
await client.close();
tell(result);
`;

it("mppx's MCP client buys a job", async () => {
  const expectChanges = await watchLedger(parts, gateway);
  const result = await askAgent(MCP_CLIENT + WITH_MPPX, `${gateway.jobgate.x402Url}/mcp`);
  expect(result).toMatchObject({ content: [], receipt: { status: "success", method: "evm" } });
  await gateway.waitForJobs("by mppx over MCP");
  await expectChanges(ONE_PAID_JOB);
});

const AS_CALL = `
const call = await pay({ body: "by the official client" });
tell(await client.callTool(call));
await client.close();
`;

it.each([
  ["with a session", MCP_CLIENT],
  ["without a session", STATELESS_MCP_CLIENT],
])("The official MCP client, %s, and the official x402 client buy a job", async (_, client) => {
  const expectChanges = await watchLedger(parts, gateway);
  const before = gateway.jobsWith("by the official client").length;
  const result = await askAgent(client + X402_CLIENT + AS_CALL, `${gateway.jobgate.x402Url}/mcp`);
  expect(result).toMatchObject({
    content: [],
    _meta: { "x402/payment-response": { success: true, extensions: { "offer-receipt": {} } } },
  });
  await gateway.waitForJobs("by the official client", before + 1);
  await expectChanges(ONE_PAID_JOB);
});

it.each([
  ["with a session", "legacy"],
  ["without a session", "2026-07-28"],
])("The official Python clients of MCP, %s, and of x402 buy a job", async (_, mode) => {
  await preparePythonClients();
  const expectChanges = await watchLedger(parts, gateway);
  const body = `by Python ${mode}`;
  const result = await buyTool({ mode, url: `${gateway.jobgate.x402Url}/mcp`, body }, accounts.payer);
  expect(result).toEqual({ asked: true, refused: false, settled: true });
  await gateway.waitForJobs(body);
  await expectChanges(ONE_PAID_JOB);
});

/** Tells each state that its task has, once, and how it ended. */
const AS_TASK = `
import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { setTimeout as sleep } from "node:timers/promises";
const { tasks } = client.experimental;
const call = await pay({ body: "long" });
const shown = new Set();
let taskId;
function show(task) {
  taskId = task.taskId;
  const text = [task.status, task.statusMessage].join(" ").trim();
  if (!shown.has(text)) tell(text);
  shown.add(text);
  return task.status !== "working";
}
for await (const { type, task, result } of tasks.callToolStream(call, undefined, { task: {} })) {
  if (task) show(task);
  else tell(type === "error" ? "lost" : result);
}
// The stream of the official client ends at the first lost answer; the task goes on.
const POLL_EVERY_MS = 200;
let polls = 10_000;
while (polls-- > 0 && !(await tasks.getTask(taskId).then(show, () => false))) await sleep(POLL_EVERY_MS);
tell(await tasks.getTaskResult(taskId, CallToolResultSchema));
await client.close();
`;

it(`The official MCP client gets the result of a task of ${LONG_JOB_SECS} s over kill -9 of jobgate`, async () => {
  const address = `unix:${join(await testFolder(), "runner.sock")}`;
  const gateway = await startPaidGateway({
    parts,
    setUp: "rpc_url",
    asProcess: true,
    edit: (config) =>
      config.replace('[runner]\nbind_address = "127.0.0.1:0"', `[runner]\nbind_address = "${address}"`),
    // The other job is for a runner that goes on over a restart.
    jobIds: [1n],
  });
  onTestFinished(() => gateway.stop());
  // Agents know one URL, where another process listens after a restart.
  const front = await startFaultProxy({
    get target() {
      return gateway.jobgate.x402Url;
    },
  });
  onTestFinished(() => front.stop());
  let restarted = () => {};
  const restart = new Promise<void>((resolve) => {
    restarted = resolve;
  });
  startRun(
    async (job) => {
      await sleep((LONG_JOB_SECS * 1000) / 2);
      job.progress(50, "half done");
      await Promise.all([restart, sleep((LONG_JOB_SECS * 1000) / 2)]);
      return "at last";
    },
    { address },
  );
  const expectChanges = await watchLedger(parts, gateway);
  const told: unknown[] = [];
  for await (const value of runAgent(MCP_CLIENT + X402_CLIENT + AS_TASK, `${front.url}/mcp`)) {
    told.push(value);
    if (value === "working half done") gateway.jobgate.kill("SIGKILL");
    if (value === "lost") {
      await gateway.startAgain({ asProcess: true });
      restarted();
    }
  }
  expect(told.filter((value) => value !== "working")).toEqual([
    "working half done",
    "lost",
    "completed",
    { content: [{ type: "text", text: "at last" }], _meta: expect.anything() },
  ]);
  await expectChanges({ ...ONE_PAID_JOB, jobs: 0 });
});
