import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { freePort } from "../helpers/free-port.ts";
import { type ReferenceEngine, startPricingEngine } from "../helpers/pricing-engine.ts";
import { engineTable, PROOF_BITS } from "./engine-client.ts";
import { watchLedger } from "./ledger.ts";
import { type PaidGateway, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, type PaidParts, startPaidParts } from "./paid-parts.ts";
import { preparePython } from "./python.ts";

let parts: PaidParts;
let engine: ReferenceEngine;
let gateway: PaidGateway;
let client: { python: string; cwd: string };

beforeAll(async () => {
  [parts, engine, client] = await Promise.all([
    startPaidParts(),
    startPricingEngine({ difficulty: PROOF_BITS, prices: { "1/0": 2_000_000_000_000_000n } }),
    preparePython("quote-client-python", "pricing_engine/pricing.proto"),
  ]);
  const address = `127.0.0.1:${await freePort()}`;
  gateway = await startPaidGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) =>
      config
        .replace('[x402]\nbind_address = "127.0.0.1:0"', `[x402]\nbind_address = "${address}"`)
        .replace("http://127.0.0.1:8402", `http://${address}`) + engineTable(engine),
  });
});
afterAll(async () => {
  await gateway?.stop();
  await engine?.stop();
  await parts?.stop();
});

describe("A Python client, with grpcio and the official x402 client", () => {
  it("Gets a quote, pays it, and the runner gets the quote's digest", async () => {
    const expectChanges = await watchLedger(parts, gateway);
    const { stdout } = await promisify(execFile)(client.python, ["buy.py", "1", "0", "from Python"], {
      cwd: client.cwd,
      timeout: 600_000,
      env: {
        ...process.env,
        PAYER_KEY: accounts.payer.privateKey,
        JOBGATE_PRICING: gateway.jobgate.listeners.get("pricing"),
        PROOF_OF_WORK_BITS: String(PROOF_BITS),
        QUOTE_CHAIN_ID: String(engine.signing.chainId),
        QUOTE_CONTRACT: engine.signing.verifyingContract,
      },
    });
    const bought = JSON.parse(stdout);
    expect(bought).toMatchObject({
      amount: String(2n * AMOUNT),
      symbol: "USDC",
      status: 202,
      answer: { status: "accepted", receipt: bought.quote },
    });
    const [call] = await gateway.waitForJobs("from Python");
    expect(call?.metadata["X-X402-QUOTE-DIGEST"]).toBe(bought.quote);
    await expectChanges({
      verifyCalls: 1,
      settleCalls: 1,
      received: 2n * AMOUNT,
      jobs: 1,
      payments: { settled: 1 },
    });
  });
});
