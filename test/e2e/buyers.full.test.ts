import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import type { ProxiedRequest } from "../helpers/fault.ts";
import { freePort } from "../helpers/free-port.ts";
import { startFaultProxy } from "../helpers/http-proxy.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { withReceipts } from "./paid-config.ts";
import { inDollars, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";
import { preparePython } from "./python.ts";

const NODE = fileURLToPath(new URL("../../examples/buyer-node/buy.js", import.meta.url));
const SCHEMA = { type: "object", required: ["text"], properties: { text: { type: "string" } } };
const PRICE = 10_000n;

let folder: string;
let python: Awaited<ReturnType<typeof preparePython>>;
beforeAll(async () => {
  python = await preparePython("buyer-python");
  folder = await mkdtemp(join(tmpdir(), "jobgate-buyers-"));
  await writeFile(join(folder, "schema.json"), JSON.stringify(SCHEMA));
  await writeFile(join(folder, "example.json"), '{"text":"an example"}');
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const parts = startBeforeAll(startPaidParts);
const address = `127.0.0.1:${await freePort()}`;
/** Proxy between the buyers and the gateway. */
const proxy = startBeforeAll(() => startFaultProxy({ target: `http://${address}` }));
const gateway = startBeforeAll(() => {
  const job = `
[[jobs]]
job_index = 2
name = "capitals"
description = "Returns the text in capitals."
price = "$0.01"
input = { schema = "${join(folder, "schema.json")}", example = "${join(folder, "example.json")}" }`;
  return startPaidGateway({
    parts,
    setUp: "rpc_url",
    handle: ({ body }) => ({
      body: Buffer.from(JSON.parse(Buffer.from(body).toString()).text.toUpperCase()),
      contentType: "text/plain",
    }),
    edit: (config) =>
      withReceipts(
        inDollars(config)
          .replace('[x402]\nbind_address = "127.0.0.1:0"', `[x402]\nbind_address = "${address}"`)
          .replace("http://127.0.0.1:8402", proxy.url)
          .replace(/\[job_pricing[\s\S]*/, job),
      ),
  });
});

const BUYERS = {
  Node: () => [process.execPath, NODE],
  Python: () => [python.python, join(python.cwd, "buy.py")],
} as const;

/** Runs a buyer program. */
async function buy(buyer: keyof typeof BUYERS, ...words: readonly string[]) {
  const [command, program] = BUYERS[buyer]() as [string, string];
  return promisify(execFile)(command, [program, ...words], {
    env: { ...process.env, PAYER_KEY: accounts.payer.privateKey },
    timeout: 600_000,
  });
}

describe.each(["Node", "Python"] as const)("A program in %s", (buyer) => {
  it("Finds a job, buys it and prints its result, given only the origin", async () => {
    const expectChanges = await watchLedger(parts, gateway);
    const { stdout, stderr } = await buy(buyer, proxy.url);
    expect(stdout).toBe("AN EXAMPLE\n");
    expect(stderr).toContain("capitals: Returns the text in capitals.");
    expect(stderr).toContain("0.01 USDC on eip155:84532");
    await expectChanges({ ...ONE_PAID_JOB, received: PRICE });
  });

  it("Pays once when the answer to its payment is lost", async () => {
    const expectChanges = await watchLedger(parts, gateway);
    const isPaid = ({ headers }: ProxiedRequest) => "payment-signature" in headers;
    proxy.forget();
    proxy.add({ when: isPaid, times: 1, fault: { kind: "lose-answer" } });
    const { stdout } = await buy(buyer, proxy.url, "capitals", '{"text":"once"}');
    expect(stdout).toBe("ONCE\n");
    const signatures = proxy.requests.filter(isPaid).map(({ headers }) => headers["payment-signature"]);
    expect(new Set(signatures).size).toBe(2);
    await expectChanges({ ...ONE_PAID_JOB, received: PRICE });
  });
});
