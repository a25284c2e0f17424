import { status } from "@grpc/grpc-js";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch } from "../helpers/clients.ts";
import { startPricingEngine } from "../helpers/pricing-engine.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { askForQuote, engineTable, PROOF_BITS, type QuoteRequest } from "./engine-client.ts";
import { watchLedger } from "./ledger.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

/** Twice the list price. */
const QUOTED_WEI = 2_000_000_000_000_000n;
const QUOTED = 2n * AMOUNT;
const ONE_QUOTED_JOB = {
  verifyCalls: 1,
  settleCalls: 1,
  received: QUOTED,
  jobs: 1,
  payments: { settled: 1 },
};

const parts = startBeforeAll(startPaidParts);
const engine = startBeforeAll(() =>
  startPricingEngine({
    difficulty: PROOF_BITS,
    prices: { "1/0": QUOTED_WEI, "1/7": QUOTED_WEI, "1/8": QUOTED_WEI },
  }),
);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    // Several payments are verified at once.
    facilitatorTimeoutSecs: 50,
    edit: (config) =>
      `${config.replace("[job_pricing.1]", `${DISABLED_JOB}\n[job_pricing.1]`)}${engineTable(engine)}`,
  }),
);
afterEach(() => {
  for (const fault of Object.keys(engine.faults)) delete engine.faults[fault as keyof typeof engine.faults];
  engine.quoteLifetimeSecs = 3600;
});

const DISABLED_JOB = `
[[x402.job_policies]]
service_id = 1
job_index = 8
invocation_mode = "disabled"
`;

function ask(request: QuoteRequest = {}) {
  return askForQuote(gateway.jobgate.listeners.get("pricing") as string, engine, request);
}
/** A quote with its payment. `end` lets it expire for jobgate, which runs in this process, until the end of the test. */
async function askForEndingQuote(body: string) {
  engine.quoteLifetimeSecs = 60;
  const { headers, response } = await ask({ body });
  const payment = await gateway.sign({ body, headers });
  const end = (): void => {
    vi.useFakeTimers({ toFake: ["Date"], now: Number(response.quoteDetails?.expiry) * 1000 + 100 });
    onTestFinished(() => void vi.useRealTimers());
  };
  return { headers, payment, end };
}
const logged = (what: string) =>
  gateway.jobgate.logs.filter((line) => line.includes('"job":"1/7"') && line.includes(what));
const refused = (status: number, code: string) => ({ status, code, charged: false, retryable: false });

describe("A quote that passed through jobgate", () => {
  it("Has payment options at its own price, and the official client's payment brings the runner its digest", async () => {
    const body = "the quoted work";
    const { response, digest, headers } = await ask({ body });
    expect(response.x402Endpoint).toBe("http://127.0.0.1:8402/x402/jobs/1/0");
    expect(response.settlementOptions).toEqual([
      expect.objectContaining({
        network: "eip155:84532",
        asset: parts.usdc.address,
        symbol: "USDC",
        amount: String(QUOTED),
        payTo: accounts.payTo.address,
        scheme: "exact",
      }),
    ]);

    const expectChanges = await watchLedger(parts, gateway);
    const pay = payingFetch({ account: accounts.payer, network: "eip155:84532", spendControls: false });
    const answer = await pay(gateway.urlOf(), { method: "POST", headers, body });
    expect(answer.status).toBe(202);
    expect(await answer.json()).toMatchObject({ receipt: digest });
    const [call] = await gateway.waitForJobs(body);
    expect(call?.metadata["X-X402-QUOTE-DIGEST"]).toBe(digest);
    await expectChanges(ONE_QUOTED_JOB);
  });

  it("Is paid once: another payment is refused, and a resend of the first gets its answer, also after a restart", async () => {
    const body = "paid once";
    const { headers } = await ask({ body });
    const [first, second] = [await gateway.sign({ body, headers }), await gateway.sign({ body, headers })];
    const expectChanges = await watchLedger(parts, gateway);
    const answer = await gateway.send(first, { body, headers });
    expect(answer.status).toBe(202);
    expect(await gateway.send(second, { body, headers })).toEqual(refused(409, "quote_conflict"));
    await gateway.restart();
    expect(await gateway.send(second, { body, headers })).toEqual(refused(409, "quote_conflict"));
    expect(await gateway.send(first, { body, headers })).toEqual(answer);
    await gateway.waitForJobs(body);
    await expectChanges(ONE_QUOTED_JOB);
  });

  it("Exactly one of eight concurrent payments for one quote settles; the others are refused before any charge", async () => {
    const body = "eight at once";
    const { headers } = await ask({ body });
    const payments = await Promise.all(Array.from({ length: 8 }, () => gateway.sign({ body, headers })));
    const expectChanges = await watchLedger(parts, gateway);
    const answers = await Promise.all(payments.map((payment) => gateway.send(payment, { body, headers })));
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1);
    expect(answers.filter(({ code }) => code === "quote_conflict")).toHaveLength(7);
    await gateway.waitForJobs(body);
    const verifyCalls = gateway.facilitatorProxy.requests.length;
    expect(verifyCalls).toBeGreaterThan(0);
    await expectChanges({ ...ONE_QUOTED_JOB, verifyCalls: expect.any(Number) });
  });

  it("Survives a restart while unpaid", async () => {
    const body = "after the restart";
    const { headers, digest } = await ask({ body });
    await gateway.restart();
    const payment = await gateway.sign({ body, headers });
    expect(await gateway.send(payment, { body, headers })).toMatchObject({ status: 202, receipt: digest });
    await gateway.waitForJobs(body);
  });

  it("Sells a job that has no list price", async () => {
    const body = "quoted only";
    expect(await gateway.send({ headers: {} }, { job: 7, body })).toMatchObject(
      refused(404, "job_not_found"),
    );
    const { headers, digest } = await ask({ job: 7, body });
    const payment = await gateway.sign({ job: 7, body, headers });
    const answer = await gateway.send(payment, { job: 7, body, headers });
    expect(answer).toMatchObject({ status: 202, receipt: digest });
    await gateway.waitForJobs(body);
    // A resend that does not name the quote is still the payment of that quote.
    expect(await gateway.send(payment, { job: 7, body })).toEqual(answer);
    expect(await gateway.send(payment, { job: 7, body: "other" })).toMatchObject({
      status: 409,
      code: "payment_replay",
    });
  });

  it("Passes unchanged if its job cannot be bought", async () => {
    const { response, headers } = await ask({ job: 8 });
    expect([response.settlementOptions, response.x402Endpoint]).toEqual([[], ""]);
    const answer = await gateway.send({ headers: {} }, { job: 8, headers });
    expect(answer).toMatchObject(refused(403, "x402_disabled"));
  });

  it("Is not offered with 7 s or less left, and the log says so once", async () => {
    engine.quoteLifetimeSecs = 7;
    const { response, headers } = await ask({ job: 7 });
    await ask({ job: 7 });
    expect([response.settlementOptions, response.x402Endpoint]).toEqual([[], ""]);
    const answer = await gateway.send({ headers: {} }, { job: 7, body: "work", headers });
    expect(answer).toMatchObject(refused(404, "quote_not_found"));
    await expect.poll(() => logged("too soon to be paid")).toHaveLength(1);
  });

  it("Is not offered when its price rounds to 0, and the log says so once", async () => {
    engine.prices.set("1/7", 1n);
    const quotes = [await ask({ job: 7 }), await ask({ job: 7 })];
    engine.prices.set("1/7", QUOTED_WEI);
    expect(quotes.map(({ response }) => response.settlementOptions)).toEqual([[], []]);
    await expect.poll(() => logged("the job cannot be sold")).toHaveLength(1);
  });

  it("Is needed to learn that a job is disabled: an unknown digest, or another job's, does not reveal it", async () => {
    const other = await ask({ job: 0 });
    const madeUp = { "x-x402-quote-digest": "ab".repeat(32) };
    const noDigest = { "x-x402-quote-digest": "junk" };
    const answerTo = (headers: Record<string, string>) =>
      gateway.send({ headers: {} }, { job: 8, body: "work", headers });
    expect(await answerTo(madeUp)).toMatchObject(refused(404, "quote_not_found"));
    expect(await answerTo(noDigest)).toMatchObject(refused(404, "quote_not_found"));
    expect(await answerTo({ ...other.headers })).toMatchObject(refused(403, "quote_mismatch"));
  });

  it("Tells the runner that it is for a trusted execution environment", async () => {
    const body = "confidential";
    engine.faults.quoteInstead = { confidentiality: 1 };
    const { headers } = await ask({ body });
    delete engine.faults.quoteInstead;
    expect(await gateway.send(await gateway.sign({ body, headers }), { body, headers })).toMatchObject({
      status: 202,
    });
    const [call] = await gateway.waitForJobs(body);
    expect(call?.metadata["X-X402-CONFIDENTIALITY"]).toBe("tee");
  });

  it("Still finds its payment after it has expired", async () => {
    const body = "paid and expired";
    const { headers, payment, end } = await askForEndingQuote(body);
    const answer = await gateway.send(payment, { body, headers });
    expect(answer.status).toBe(202);
    end();
    expect(await gateway.send(payment, { body, headers })).toEqual(answer);
  });
});

describe("Pricing: quotes that are refused before any charge", () => {
  it("A quote redeemed for other inputs, by another payer, for another job, or never issued → refused", async () => {
    const body = "the right body";
    const { headers } = await ask({ body });
    const payment = await gateway.sign({ body, headers });
    const other = await gateway.sign({ body, headers, account: accounts.otherPayer });
    const unknown = { "x-x402-quote-digest": "ab".repeat(32) };
    const expectChanges = await watchLedger(parts, gateway);
    const mismatch = refused(403, "quote_mismatch");
    const missing = refused(404, "quote_not_found");
    expect(await gateway.send(payment, { body: "another body", headers })).toMatchObject(mismatch);
    expect(await gateway.send(other, { body, headers })).toMatchObject(mismatch);
    expect(await gateway.send(payment, { body, headers, job: 1 })).toMatchObject(mismatch);
    expect(await gateway.send(payment, { body, headers: unknown })).toMatchObject(missing);
    for (const malformed of ["", "0x12", "zz".repeat(32), `${headers["x-x402-quote-digest"]}00`]) {
      expect(
        await gateway.send(payment, { body, headers: { "x-x402-quote-digest": malformed } }),
      ).toMatchObject(missing);
    }
    // A quote that cannot be redeemed gets no offer either.
    expect(await gateway.send({ headers: {} }, { body: "another body", headers })).toMatchObject(mismatch);
    expect(await gateway.send({ headers: {} }, { body, headers: unknown })).toMatchObject(missing);
    await expectChanges({});
    expect(await gateway.send(payment, { body, headers })).toMatchObject({ status: 202 });
    await gateway.waitForJobs(body);
  });

  it("The list price does not pay a dearer quote, nor the quote's price the list price", async () => {
    const body = "dearer";
    const { headers } = await ask({ body });
    const [cheap, dear] = [await gateway.sign({ body }), await gateway.sign({ body, headers })];
    const expectChanges = await watchLedger(parts, gateway);
    expect(await gateway.send(cheap, { body, headers })).toMatchObject(refused(402, "payment_mismatch"));
    expect(await gateway.send(dear, { body })).toMatchObject(refused(402, "payment_mismatch"));
    await expectChanges({});
  });

  it("expired quote → refused", async () => {
    const body = "too late";
    const { headers, payment, end } = await askForEndingQuote(body);
    const expectChanges = await watchLedger(parts, gateway);
    end();
    expect(await gateway.send(payment, { body, headers })).toMatchObject(refused(404, "quote_not_found"));
    await expectChanges({});
  });

  it("A quote that expires while the facilitator verifies is refused, and nothing is settled", async () => {
    const body = "slow facilitator";
    const expectChanges = await watchLedger(parts, gateway);
    const { headers, payment, end } = await askForEndingQuote(body);
    const ended = gateway.facilitatorProxy.during({ path: "/verify" }, async () => end());
    expect(await gateway.send(payment, { body, headers })).toMatchObject(refused(404, "quote_not_found"));
    await ended;
    await expectChanges({ verifyCalls: 1 });
  });

  it("proof-of-work spent on another service → refused", async () => {
    await expect(ask({ provenService: 2n })).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: "invalid proof of work",
    });
  });

  it("A quote with an altered price or signer → cannot be paid", async () => {
    const tampered = [
      () => {
        engine.faults.signer = accounts.otherPayer;
      },
      () => {
        engine.faults.tamper = ({ quoteDetails }) => {
          if (quoteDetails) quoteDetails.price = new Uint8Array(32).fill(0, 0, 31).fill(1, 31);
        };
      },
    ];
    const expectChanges = await watchLedger(parts, gateway);
    for (const tamper of tampered) {
      engine.faults.signer = undefined as never;
      delete engine.faults.signer;
      tamper();
      // No other quote has its inputs, and so its digest.
      const body = "altered quote";
      const { response, headers } = await ask({ body });
      expect([response.settlementOptions, response.x402Endpoint]).toEqual([[], ""]);
      const answer = await gateway.send({ headers: {} }, { body, headers });
      expect(answer).toMatchObject(refused(404, "quote_not_found"));
    }
    await expectChanges({});
  });

  it("quote paid with an altered option → refused", async () => {
    const body = "altered option";
    const { headers } = await ask({ body });
    const expectChanges = await watchLedger(parts, gateway);
    const cheaper = await gateway.sign({
      body,
      headers,
      authorization: { value: String(QUOTED - 1n) },
      edit: (payload) => ({ ...payload, accepted: { ...payload.accepted, amount: String(QUOTED - 1n) } }),
    });
    expect(await gateway.send(cheaper, { body, headers })).toMatchObject(refused(402, "payment_mismatch"));
    await expectChanges({});
  });
});
