import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startMeteredParts } from "../e2e/metered.ts";
import { withPermit2 } from "../e2e/paid-config.ts";
import { inDollars, type PaidGateway, startPaidGateway } from "../e2e/paid-gateway.ts";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch } from "../helpers/clients.ts";
import { freePort } from "../helpers/free-port.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { A2A_CLIENT, MCP_CLIENT, runAgent } from "./agents.ts";
import { DOORS, type Found, requestFor } from "./doors.ts";

const NUMBER = { type: "object", properties: { n: { type: "integer", minimum: 1 } }, required: ["n"] };
const TEXT = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };

/** Jobs for sale: how each is bought by an agent, and what it costs with the example of its input. */
const JOBS = [
  { title: "Shout", terms: 'price = "$0.01"', schema: TEXT, example: { text: "hello" }, units: 10_000n },
  {
    title: "Count the words",
    terms: 'price = "$0.05"\ncharge = "used"',
    ...{ schema: TEXT, example: { text: "one two" }, units: 2n },
  },
  {
    title: "Draw lots",
    terms: 'price = { per = "json:/n", each = "$0.001", min = "$0.001", max = "$0.1" }',
    ...{ schema: NUMBER, example: { n: 7 }, units: 7_000n },
  },
  { title: "Print a book", terms: 'price = "$2"', schema: TEXT, example: { text: "a" }, units: 2_000_000n },
] as const;
const DEAR = "Print a book";
const METERED = "Count the words";

const parts = startBeforeAll(startMeteredParts);
const gateway = startBeforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-doors-"));
  const write = async (name: string, content: unknown) => {
    await writeFile(join(folder, name), JSON.stringify(content));
    return join(folder, name);
  };
  const jobs = await Promise.all(
    JOBS.map(
      async ({ title, terms, schema, example }, i) => `[[jobs]]
job_index = ${i}
title = "${title}"
description = "${title}"
mode = "public_paid"
max_run_secs = 120
${terms}
input = { content_type = "application/json", schema = "${await write(`${i}.json`, schema)}", example = "${await write(`${i}-example.json`, example)}" }
output = { content_type = "text/plain" }
`,
    ),
  );
  const address = `127.0.0.1:${await freePort()}`;
  return startPaidGateway({
    ...{ parts, setUp: "rpc_url" },
    handle: ({ body, metadata }) => ({
      body: Buffer.from(`did ${Buffer.from(body)}`),
      contentType: "text/plain",
      ...(metadata["X-X402-PAYMENT-SCHEME"] === "upto" ? { charge: 2n } : {}),
    }),
    edit: (config) =>
      inDollars(withPermit2(config))
        .replaceAll("markup_bps = 200", 'currency = "USD"')
        .replace('[x402]\nbind_address = "127.0.0.1:0"', `[x402]\nbind_address = "${address}"`)
        .replace("http://127.0.0.1:8402", `http://${address}`)
        .replace(/\[job_pricing[\s\S]*/, jobs.join("")),
  });
});

/** Answer to a purchase. */
interface Bought {
  readonly call_id: number;
  readonly access_token: string;
  readonly links: { readonly result: string };
}

/** Reads the result of a purchase as its answer says. */
async function resultOf({ links, access_token }: Bought) {
  const origin = gateway.jobgate.x402Url;
  const headers = { authorization: `Bearer ${access_token}` };
  const ask = (path: string) => fetch(new URL(path, origin), { headers });
  await expect.poll(async () => (await ask(links.result)).status).toBe(200);
  return (await ask(links.result)).text();
}

function buy(found: Found, limits?: false): Promise<Response> {
  const scheme = found.title === METERED ? "upto" : "exact";
  const pay = payingFetch({
    ...{ account: accounts.payer, network: "eip155:84532", scheme },
    ...(limits === undefined ? {} : { spendControls: limits }),
  });
  return pay(found.at, requestFor(found));
}

describe.each(Object.entries(DOORS))("an agent that knows the origin alone, through %s", (_door, find) => {
  it("finds each job with its price, buys it and reads the result", async () => {
    // Offers of the metered job begin once the facilitator has said what it supports.
    const metered = async () => (await find(gateway.jobgate.x402Url)).find(({ title }) => title === METERED);
    await expect.poll(async () => (await metered())?.price).toMatch(/\d/);
    const found = await find(gateway.jobgate.x402Url);
    expect(found.map(({ title }) => title).sort()).toEqual(JOBS.map(({ title }) => title).sort());
    for (const job of found.filter(({ title }) => title !== DEAR)) {
      const { example, units } = JOBS.find(({ title }) => title === job.title) ?? JOBS[0];
      expect(job.price, job.title).toMatch(/\d/);
      const answer = await buy(job);
      expect(answer.status, job.title).toBe(202);
      const bought = (await answer.json()) as Bought;
      expect(await resultOf(bought)).toBe(`did ${JSON.stringify(example)}`);
      await expect.poll(() => chargedFor(gateway, bought.call_id)).toBe(units);
    }
  });

  it("is told why its client does not buy a job over $1, and buys it once it may", async () => {
    const dear = (await find(gateway.jobgate.x402Url)).find(({ title }) => title === DEAR) as Found;
    expect(dear.price).toMatch(/\$2|2\.00|"2"|2000000/);
    await expect(buy(dear)).rejects.toThrow(/limit|control|exceed/i);
    const answer = await buy(dear, false);
    expect(answer.status).toBe(202);
    expect(await resultOf((await answer.json()) as Bought)).toBe('did {"text":"a"}');
  });
});

/** An agent with the official clients of MCP and x402: what each tool is, what it gives, or why it is not bought. */
const BY_MCP = `
import { x402Client } from "@x402/core/client";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { UptoEvmScheme } from "@x402/evm/upto/client";
const x402 = new x402Client().register("eip155:*", new ExactEvmScheme(account)).register("eip155:*", new UptoEvmScheme(account));
const { tools } = await client.listTools();
for (const { name, title, description, inputSchema } of tools) {
  const [args] = inputSchema.examples;
  const asked = await client.callTool({ name, arguments: args });
  const payment = await x402.createPaymentPayload(asked.structuredContent);
  const { content } = await client.callTool({ name, arguments: args, _meta: { "x402/payment": payment } });
  tell({ title, description, text: content[0]?.text });
}
await client.close();
`;

// The official client for MCP is older than the limit of $1.
it("An agent that knows the origin alone finds each tool over MCP with its price, buys it and gets the result", async () => {
  const told = [];
  for await (const one of runAgent(MCP_CLIENT + BY_MCP, `${gateway.jobgate.x402Url}/mcp`)) told.push(one);
  expect(told).toEqual(
    JOBS.map(({ title, example }) => ({
      ...{ title, text: `did ${JSON.stringify(example)}` },
      description: expect.stringMatching(/Costs (up to )?\$\d/),
    })),
  );
});

/** An agent with the official clients of A2A and x402: what each skill is, and what it gives. */
const BY_A2A = `
import { UptoEvmScheme } from "@x402/evm/upto/client";
x402.register("eip155:*", new UptoEvmScheme(account));
for (const { id, name, description, examples } of card.skills) {
  const task = await client.sendMessage(messageOf(examples[0], { metadata: { skillId: id } }), options);
  const { status, artifacts } = await client.sendMessage(await paymentFor(task), options);
  tell({ title: name, description, state: TaskState[status.state], text: artifacts[0]?.parts[0].content.value });
}
`;

it("An agent that knows the origin alone finds each skill over A2A with its price, buys it and gets the result", async () => {
  const told = [];
  for await (const one of runAgent(A2A_CLIENT(undefined) + BY_A2A, gateway.jobgate.x402Url)) told.push(one);
  expect(told).toEqual(
    JOBS.map(({ title, example }) => ({
      ...{ title, state: "TASK_STATE_COMPLETED", text: `did ${JSON.stringify(example)}` },
      description: expect.stringMatching(/Costs (up to )?\$\d/),
    })),
  );
});

async function chargedFor({ journal }: PaidGateway, callId: number): Promise<bigint | undefined> {
  const payment = (await journal.payments()).find((one) => one.callId === callId);
  return payment?.state === "settled" ? BigInt(payment.amount) : undefined;
}
