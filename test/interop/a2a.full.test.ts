import { expect, it, onTestFinished } from "vitest";
import { ONE_PAID_JOB, watchLedger } from "../e2e/ledger.ts";
import { type PaidGateway, type PaidGatewayOptions, startPaidGateway } from "../e2e/paid-gateway.ts";
import { AMOUNT, startPaidParts } from "../e2e/paid-parts.ts";
import { accounts } from "../helpers/accounts.ts";
import { freePort } from "../helpers/free-port.ts";
import type { JobOutcome } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { A2A_CLIENT, askAgent, runAgent } from "./agents.ts";

const parts = startBeforeAll(startPaidParts);

/** Starts a gateway at the URL that its agent card names. */
async function startAgentGateway(options: Partial<PaidGatewayOptions>): Promise<{
  readonly gateway: PaidGateway;
  readonly url: string;
}> {
  const address = `127.0.0.1:${await freePort()}`;
  const url = `http://${address}`;
  const gateway = await startPaidGateway({
    ...{ parts, setUp: "rpc_url" as const },
    edit: (config) =>
      config
        .replace('[x402]\nbind_address = "127.0.0.1:0"', `[x402]\nbind_address = "${address}"`)
        .replace('public_url = "http://127.0.0.1:8402"', `public_url = "${url}"`),
    ...options,
  });
  onTestFinished(() => gateway.stop());
  return { gateway, url };
}

const BUY = `
const asked = await ask("buy");
const payment = await paymentFor(asked);
const [done, again] = [await client.sendMessage(payment, options), await client.sendMessage(payment, options)];
const found = await client.getTask({ tenant: "", id: asked.id }, options);
tell({
  version: client.protocolVersion,
  states: [asked, done, again, found].map(({ status }) => TaskState[status.state]),
  ids: [done.id, again.id, found.id].every((id) => id === asked.id),
  paid: metadataOf(done),
  result: done.artifacts[0].parts[0].content,
});
`;

it.each(["1.0", "0.3"])(
  "The official clients of A2A %s and x402 buy a job, and the same payment again is charged once",
  async (version) => {
    const { gateway, url } = await startAgentGateway({ handle: answer });
    const expectChanges = await watchLedger(parts, gateway);
    expect(await askAgent(A2A_CLIENT(version) + BUY, url)).toEqual({
      version,
      states: [
        "TASK_STATE_INPUT_REQUIRED",
        ...["TASK_STATE_COMPLETED", "TASK_STATE_COMPLETED", "TASK_STATE_COMPLETED"],
      ],
      ids: true,
      paid: {
        "x402.payment.status": "payment-completed",
        "x402.payment.receipts": [expect.objectContaining({ success: true })],
      },
      result: { $case: "data", value: { got: "buy" } },
    });
    await expectChanges(ONE_PAID_JOB);
  },
);

const STREAM = `
const asked = await ask("stream");
const told = [];
for await (const { payload } of client.sendMessageStream(await paymentFor(asked), options))
  told.push([payload.$case, TaskState[payload.value.status?.state], payload.value.artifact?.parts[0].content]);
tell(told);
`;

it.each(["1.0", "0.3"])("The official client of A2A %s streams a task to its end", async (version) => {
  const { gateway, url } = await startAgentGateway({ handle: answer });
  const expectChanges = await watchLedger(parts, gateway);
  expect(await askAgent(A2A_CLIENT(version) + STREAM, url)).toEqual([
    ["task", "TASK_STATE_WORKING", null],
    ["artifactUpdate", null, { $case: "data", value: { got: "stream" } }],
    ["statusUpdate", "TASK_STATE_COMPLETED", null],
  ]);
  await expectChanges(ONE_PAID_JOB);
});

const TWO = `
const asked = await ask("two payments");
const payments = [await paymentFor(asked), await paymentFor(asked)];
const done = await Promise.all(payments.map((payment) => client.sendMessage(payment, options)));
tell(done.map(({ id, status }) => [id === asked.id, TaskState[status.state]]));
`;

it("Two payments of the official clients for one task at once are one charge and one job", async () => {
  const { gateway, url } = await startAgentGateway({ handle: answer });
  const received = await parts.usdc.balanceOf(accounts.payTo.address);
  const told = await askAgent(A2A_CLIENT(undefined) + TWO, url);
  expect(told).toHaveLength(2);
  for (const [isTheTask] of told as [boolean, string][]) expect(isTheTask).toBe(true);
  expect((await parts.usdc.balanceOf(accounts.payTo.address)) - received).toBe(AMOUNT);
  expect(gateway.jobsWith("two payments")).toHaveLength(1);
});

/** Pays, and asks for the task until it has ended, over answers that are lost. */
const OVER_A_CRASH = `
import { setTimeout as sleep } from "node:timers/promises";
const asked = await ask("crash");
const payment = await paymentFor(asked);
tell(asked.id);
await client.sendMessage(payment, options).then(() => tell("answered"), () => tell("lost"));
const POLL_EVERY_MS = 100;
for (let polls = 0; polls < 600; polls++) {
  const task = await client.getTask({ tenant: "", id: asked.id }, options).catch(() => undefined);
  if (task && task.status.state !== TaskState.TASK_STATE_WORKING) {
    tell([TaskState[task.status.state], metadataOf(task)["x402.payment.status"], task.artifacts.length]);
    break;
  }
  await sleep(POLL_EVERY_MS);
}
`;

it.each(["after-journal", "after-settle", "before-ack"])(
  "kill -9 %s loses the answer, and the official client finds the paid task by its ID, with one charge",
  async (point) => {
    const { gateway, url } = await startAgentGateway({
      ...{ handle: answer, env: { JOBGATE_CRASH_AT: point }, asProcess: true, leaseSecs: 2 },
    });
    const received = await parts.usdc.balanceOf(accounts.payTo.address);
    const told: unknown[] = [];
    for await (const value of runAgent(A2A_CLIENT("1.0") + OVER_A_CRASH, url)) {
      told.push(value);
      if (value === "lost") await gateway.startAgain({ asProcess: true });
    }
    expect(told.slice(1)).toEqual(["lost", ["TASK_STATE_COMPLETED", "payment-completed", 1]]);
    expect((await parts.usdc.balanceOf(accounts.payTo.address)) - received).toBe(AMOUNT);
    expect(new Set(gateway.jobsWith("crash").map(({ callId }) => callId)).size).toBe(1);
  },
);

function answer({ body }: { readonly body: Uint8Array }): JobOutcome {
  const got = Buffer.from(body).toString();
  return { body: Buffer.from(JSON.stringify({ got })), contentType: "application/json" };
}
