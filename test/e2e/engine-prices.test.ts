import { fromBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { GetJobPriceResponseSchema } from "../../src/gen/pricing_engine/pricing_pb.ts";
import { jobQuoteDigest, readUncheckedTerms } from "../../src/parts/pricing-engine/job-quote.ts";
import { accounts } from "../helpers/accounts.ts";
import { eventually } from "../helpers/eventually.ts";
import { freePort } from "../helpers/free-port.ts";
import { type ReferenceEngine, startPricingEngine } from "../helpers/pricing-engine.ts";
import { rawRequest } from "../helpers/raw-request.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { engineTable, PROOF_BITS } from "./engine-client.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const PRICE_WEI = 1_000_000_000_000_000n;

let engine: ReferenceEngine;
beforeAll(async () => {
  engine = await newEngine();
});
afterAll(() => engine?.stop());
const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) =>
      config.replace("[x402]", '[x402]\nprice_source = "engine"').replace(/\[job_pricing.1\][\s\S]*/, "") +
      engineTable(engine),
  }),
);

const newEngine = async (port?: number) =>
  startPricingEngine({
    port: port ?? (await freePort()),
    difficulty: PROOF_BITS,
    prices: { "1/0": PRICE_WEI, "1/1": PRICE_WEI },
  });

async function price(
  job = 0,
): Promise<{ status: number; code?: string; amount?: string; charged?: boolean }> {
  const { status, body } = await rawRequest(gateway.jobgate.x402Url, `GET /x402/jobs/1/${job}/price`);
  const { code, settlement_options: options, price_wei } = JSON.parse(body);
  return status === 200 ? { status, amount: options[0].amount, ...{ price_wei } } : { status, code };
}

/** Digests of the quotes that the engine gave for a job, in their order. */
function digestsOf(job: number): string[] {
  return engine.calls.flatMap(({ response }) => {
    const terms = response && readUncheckedTerms(fromBinary(GetJobPriceResponseSchema, response));
    return terms?.jobIndex === job ? [jobQuoteDigest(terms, engine.signing)] : [];
  });
}

describe("With the pricing engine as the price source", () => {
  it("A job costs the engine's quote, which is requested once until it expires", async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => price()));
    for (const answer of answers) {
      expect(answer).toEqual({ status: 200, amount: String(AMOUNT), price_wei: String(PRICE_WEI) });
    }
    expect(digestsOf(0)).toHaveLength(1);
  });

  it("The runner and every buyer get the quote's digest, and each call opens to its own buyer only", async () => {
    const expectChanges = await watchLedger(parts, gateway);
    const first = await gateway.send(await gateway.sign(), { body: "first at the quote" });
    const second = await gateway.send(await gateway.sign({ account: accounts.otherPayer }), {
      body: "second at the quote",
    });
    const [digest] = digestsOf(0);
    expect([first.status, first.receipt]).toEqual([202, digest]);
    expect([second.status, second.receipt]).toEqual([202, digest]);
    for (const body of ["first at the quote", "second at the quote"]) {
      const [call] = await gateway.waitForJobs(body);
      expect(call?.metadata["X-X402-QUOTE-DIGEST"]).toBe(digest);
    }
    const state = async (token: string | undefined) =>
      (
        await fetch(`${gateway.jobgate.x402Url}/x402/calls/${second.call_id}`, {
          headers: { authorization: `Bearer ${token}` },
        })
      ).status;
    expect([await state(first.access_token), await state(second.access_token)]).toEqual([404, 200]);
    await expectChanges({
      verifyCalls: 2,
      settleCalls: 2,
      received: 2n * AMOUNT,
      jobs: 2,
      payments: { settled: 2 },
    });
  });

  it("A job that the engine does not price is 404, and so is a job index above 255", async () => {
    expect(await price(7)).toEqual({ status: 404, code: "job_not_found" });
    expect(await price(256)).toEqual({ status: 404, code: "job_not_found" });
  });

  it("With the engine down, a quote about to end means 503, never a guessed price; its offers are honoured until its end", async () => {
    const startedAt = Date.now();
    engine.quoteLifetimeSecs = 60;
    expect(await price(1)).toMatchObject({ status: 200 });
    const payment = await gateway.sign({ job: 1 });
    expect(payment.payload.accepted.maxTimeoutSeconds).toBeLessThanOrEqual(60);
    const { port } = engine;
    await engine.stop();
    expect(await price(1)).toMatchObject({ status: 200, amount: String(AMOUNT) });
    // The quote has 4 to 5 s left, as long as the test lasts.
    vi.useFakeTimers({ toFake: ["Date"], now: startedAt + 55_000 });
    onTestFinished(() => void vi.useRealTimers());
    expect(await price(1)).toEqual({ status: 503, code: "price_unavailable" });
    const expectChanges = await watchLedger(parts, gateway);
    expect(await gateway.send({ headers: {} }, { job: 1 })).toEqual({
      status: 503,
      code: "price_unavailable",
      charged: false,
      retryable: true,
      retryAfter: "2",
    });
    expect(await gateway.send(payment, { job: 1, body: "offered before" })).toMatchObject({ status: 202 });
    await gateway.waitForJobs("offered before");
    await expectChanges(ONE_PAID_JOB);

    vi.useRealTimers();
    // Its memory is of the time to come.
    await gateway.restart();
    engine = await newEngine(port);
    await eventually(async () => expect(await price(1)).toMatchObject({ status: 200 }));
  });

  it("A confidential quote's runs reach the runner as such, and no others", async () => {
    engine.quoteLifetimeSecs = 3600;
    engine.faults.quoteInstead = { confidentiality: 1 };
    engine.prices.set("1/3", PRICE_WEI);
    expect(await gateway.send(await gateway.sign({ job: 3 }), { job: 3, body: "secret" })).toMatchObject({
      status: 202,
    });
    delete engine.faults.quoteInstead;
    expect(await gateway.send(await gateway.sign(), { body: "not secret" })).toMatchObject({ status: 202 });
    const [confidential] = await gateway.waitForJobs("secret");
    const [plain] = await gateway.waitForJobs("not secret");
    expect(confidential?.metadata["X-X402-CONFIDENTIALITY"]).toBe("tee");
    expect(Object.keys(plain?.metadata ?? {})).not.toContain("X-X402-CONFIDENTIALITY");
  });

  it("A quote that the operator did not sign is not used as a price", async () => {
    engine.faults.signer = accounts.otherPayer;
    engine.prices.set("1/2", PRICE_WEI);
    expect(await price(2)).toEqual({ status: 503, code: "price_unavailable" });
    delete engine.faults.signer;
    await eventually(async () => expect(await price(2)).toMatchObject({ status: 200 }));
  });
});

describe("While a stranger requests prices of more services than can wait for a proof of work", () => {
  // A proof takes long enough for the queue to fill, and not so long that a busy machine cannot make one in time.
  const SLOW_PROOF_BITS = 13;
  const slowEngine = startBeforeAll(() =>
    startPricingEngine({ difficulty: SLOW_PROOF_BITS, prices: { "1/0": PRICE_WEI } }),
  );
  const flooded = startBeforeAll(() =>
    startPaidGateway({
      parts,
      setUp: "rpc_url",
      edit: (config) =>
        config.replace("[x402]", '[x402]\nprice_source = "engine"').replace(/\[job_pricing.1\][\s\S]*/, "") +
        engineTable(slowEngine).replace(
          `proof_of_work_bits = ${PROOF_BITS}`,
          `proof_of_work_bits = ${SLOW_PROOF_BITS}`,
        ),
    }),
  );

  it("The operator's own service gets its price, also when it was never quoted before", async () => {
    const leaving = new AbortController();
    const priceOf = async (service: number) =>
      (await fetch(`${flooded.jobgate.x402Url}/x402/jobs/${service}/0/price`, { signal: leaving.signal }))
        .status;
    let refused = 0;
    let proven = 0;
    const flood = Array.from({ length: 100 }, async (_, i) => {
      if ((await priceOf(1_000 + i)) === 503) refused += 1;
      else proven += 1;
    });
    const ended = Promise.allSettled(flood);
    await until(() => refused > 0);
    const before = proven;
    expect(await priceOf(1)).toBe(200);
    // About 64 of the stranger's services waited for longer.
    expect(proven - before).toBeLessThan(32);
    leaving.abort();
    await ended;
  });
});
