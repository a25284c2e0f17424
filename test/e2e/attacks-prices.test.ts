import { readFile } from "node:fs/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { mistakesOf } from "../config/config-folder.ts";
import { eventually } from "../helpers/eventually.ts";
import { rawRequest } from "../helpers/raw-request.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { watchLedger } from "./ledger.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startPaidGateway({ parts, setUp: "rpc_url" }));
let config: string;
beforeAll(async () => {
  config = await readFile(gateway.jobgate.configPath, "utf8");
});

function edited(from: string, to: string): string {
  if (!config.includes(from)) throw new Error(`the configuration holds no ${from}`);
  return config.replace(from, to);
}

async function priceOf(job: number) {
  const { status, body } = await rawRequest(gateway.jobgate.x402Url, `GET /x402/jobs/1/${job}/price`);
  return status === 200 ? JSON.parse(body).settlement_options[0].amount : status;
}

/** Reloads, and waits until the job's amount is the new one. */
async function reload(toml: string, job: number, amount: unknown): Promise<void> {
  await gateway.jobgate.reload(toml);
  await eventually(async () => expect(await priceOf(job)).toBe(amount));
}

describe("Prices", () => {
  it("an amount that rounds to 0 → refused at start", async () => {
    // 306372549 wei are worth 0.9999… of a unit of the token; one wei more is worth one.
    const mistakes = await mistakesOf(edited('0 = "1000000000000000"', '0 = "306372549"'));
    expect(mistakes.map(({ place }) => place)).toEqual([expect.stringContaining("job_pricing.1.0")]);
    await reload(edited('0 = "1000000000000000"', '0 = "306372550"'), 0, "1");
    await reload(config, 0, String(AMOUNT));
  });

  it("2^256 wei, 36 decimals → exact or refused at start", async () => {
    for (const [from, to, key] of [
      ['0 = "1000000000000000"', `0 = "${2n ** 256n}"`, "job_pricing.1.0"],
      ['0 = "1000000000000000"', `0 = "${2n ** 256n - 1n}"`, "job_pricing.1.0"],
      ["decimals = 6", "decimals = 36", "job_pricing.1.0"],
      ["decimals = 6", "decimals = 37", "x402.accepted_tokens[0].decimals"],
    ] as const) {
      const places = (await mistakesOf(edited(from, to))).map(({ place }) => place);
      expect([to, places]).toEqual([to, expect.arrayContaining([expect.stringContaining(key)])]);
    }
    // 36 decimals at a price whose amount fits 64 bits: 1 wei · 0.00003 · 10^18 · 1.02, by hand.
    const small = edited("decimals = 6", "decimals = 36")
      .replace('"3200.00"', '"0.00003"')
      .replaceAll('"1000000000000000"', '"1"');
    await reload(small, 0, "30600000000000");
    await reload(config, 0, String(AMOUNT));
  });

  it("A reload with a mistake changes nothing", async () => {
    const logged = gateway.jobgate.logs.length;
    await gateway.jobgate.reload(
      edited('0 = "1000000000000000"', '0 = "1"').replace('1 = "1000', '1 = "2000'),
    );
    await eventually(() => expect(gateway.jobgate.logs.slice(logged).join("\n")).toContain("reload refused"));
    expect([await priceOf(0), await priceOf(1)]).toEqual([String(AMOUNT), String(AMOUNT)]);
    await gateway.jobgate.reload(config);
  });

  it("A reload that changes price_source changes no price", async () => {
    const logged = gateway.jobgate.logs.length;
    await gateway.jobgate.reload(
      `${edited('0 = "1000000000000000"', '0 = "1"').replace("[x402]", '[x402]\nprice_source = "engine"')}
[pricing_engine]
url = "http://127.0.0.1:9"
chain_id = 1
verifying_contract = "${parts.usdc.address}"
operator_address = "${parts.usdc.address}"
`,
    );
    const newLogs = () => gateway.jobgate.logs.slice(logged).join("\n");
    await eventually(() => expect(newLogs()).toContain("configuration reloaded"));
    expect(await priceOf(0)).toBe(String(AMOUNT));
    await gateway.jobgate.reload(config);
  });

  it("Rates reloaded between the 402 and the payment → the old offer is honoured until it expires, also after a restart", async () => {
    const before = await gateway.sign();
    const beforeRestart = await gateway.sign();
    await reload(edited('"3200.00"', '"6400.00"'), 0, String(2n * AMOUNT));
    const after = await gateway.sign();
    const expectChanges = await watchLedger(parts, gateway);

    expect(after.payload.accepted.amount).toBe(String(2n * AMOUNT));
    expect(await gateway.send(before, { body: "old rate" })).toMatchObject({ status: 202 });
    expect(await gateway.send(after, { body: "new rate" })).toMatchObject({ status: 202 });
    // A price that was never offered is none: not a cheaper one, and not that of another time.
    const never = await gateway.sign({
      authorization: { value: String(AMOUNT - 1n) },
      edit: (payload) => ({
        ...payload,
        accepted: { ...payload.accepted, amount: String(AMOUNT - 1n) },
      }),
    });
    expect(await gateway.send(never)).toMatchObject({
      status: 402,
      code: "payment_mismatch",
      charged: false,
    });

    await gateway.restart();
    await gateway.jobgate.reload(edited('"3200.00"', '"6400.00"'));
    expect(await gateway.send(beforeRestart, { body: "old rate later" })).toMatchObject({ status: 202 });
    for (const body of ["old rate", "new rate", "old rate later"]) await gateway.waitForJobs(body);
    await expectChanges({
      verifyCalls: 3,
      settleCalls: 3,
      received: 4n * AMOUNT,
      jobs: 3,
      payments: { settled: 3 },
    });
  });

  it("A job removed from the price list is no longer sold, not even at an earlier offer", async () => {
    await reload(config, 1, String(AMOUNT));
    const payment = await gateway.sign({ job: 1 });
    const expectChanges = await watchLedger(parts, gateway);
    await reload(edited('1 = "1000000000000000"', ""), 1, 404);
    const answer = await gateway.send(payment, { job: 1 });
    expect(answer).toMatchObject({ status: 404, code: "job_not_found", charged: false, retryable: false });
    await expectChanges({});
  });
});
