import { readFile } from "node:fs/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { requestOffer } from "../helpers/clients.ts";
import { eventually } from "../helpers/eventually.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { startFaultProxy } from "../helpers/http-proxy.ts";
import { callJson } from "../helpers/operator.ts";
import { deployPriceFeed, type PriceFeed } from "../helpers/price-feed.ts";
import { rawRequest } from "../helpers/raw-request.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { watchLedger } from "./ledger.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const MAX_AGE_MS = 3_600_000;
/** The rate at which a run costs {@link AMOUNT}, in the feed's 8 decimals. */
const RATE = 3200_00000000n;

let feed: PriceFeed;

const parts = startBeforeAll(startPaidParts);
const feedRpc = startBeforeAll(() => startFaultProxy({ target: parts.anvil.rpcUrl }));
let serverRequests = 0;
const server = startBeforeAll(() =>
  listenHttp({
    handler: (_, response) => {
      serverRequests++;
      response.end('{"data":[{"rate":6.4e3}]}');
    },
  }),
);
beforeAll(async () => {
  feed = await deployPriceFeed({ anvil: parts.anvil, decimals: 8 });
  await feed.setRound(RATE);
});
const gateway = startBeforeAll(() => {
  const rpcUrl = feedRpc.url.replace("http://", "http://user:hunter2@");
  const source = `{ rpc_url = "${rpcUrl}", feed = "${feed.address}", max_age_secs = 3600, refresh_secs = 0.2 }`;
  return startPaidGateway({ parts, setUp: "rpc_url", rate: `rate_source.chainlink = ${source}` });
});

/** The job's amount, or the status and code of the refusal. */
async function price(): Promise<string> {
  const { status, body } = await rawRequest(gateway.jobgate.x402Url, "GET /x402/jobs/1/0/price");
  const answer = JSON.parse(body);
  return status === 200 ? answer.settlement_options[0].amount : `${status} ${answer.code}`;
}
const priceBecomes = (expected: bigint | string) =>
  eventually(async () => expect(await price()).toBe(String(expected)));
async function rateReport(): Promise<Record<string, unknown>> {
  const { answer } = await callJson(gateway.jobgate.operatorUrl, "ListRates");
  return (answer.rates as Record<string, unknown>[])[0] ?? {};
}
async function isUsableInMetrics(): Promise<string | undefined> {
  const text = await (await fetch(`${gateway.jobgate.operatorUrl}/metrics`)).text();
  return /^jobgate_token_rate_usable\{.*source="chainlink"\} (\d)$/m.exec(text)?.[1];
}

describe("A feed with a new value", () => {
  it("Changes the next offer; an earlier offer is honoured at its own amount", async () => {
    const before = await gateway.sign();
    const expectChanges = await watchLedger(parts, gateway);
    await feed.setRound(2n * RATE);
    await priceBecomes(2n * AMOUNT);
    const after = await gateway.sign();
    expect([before, after].map(({ payload }) => payload.accepted.amount)).toEqual([
      String(AMOUNT),
      String(2n * AMOUNT),
    ]);
    expect(await gateway.send(before, { body: "before" })).toMatchObject({ status: 202 });
    expect(await gateway.send(after, { body: "after" })).toMatchObject({ status: 202 });
    await gateway.waitForJobs("before");
    await gateway.waitForJobs("after");
    await expectChanges({
      verifyCalls: 2,
      settleCalls: 2,
      received: 3n * AMOUNT,
      jobs: 2,
      payments: { settled: 2 },
    });
  });

  it("Refuses an amount that was never offered", async () => {
    await feed.setRound(RATE);
    await priceBecomes(AMOUNT);
    const never = await gateway.sign({
      authorization: { value: String(AMOUNT / 2n) },
      edit: (payload) => ({
        ...payload,
        accepted: { ...payload.accepted, amount: String(AMOUNT / 2n) },
      }),
    });
    expect(await gateway.send(never)).toMatchObject({
      status: 402,
      code: "payment_mismatch",
      charged: false,
    });
  });
});

describe("A feed that goes stale", () => {
  it("Makes no new offers, honours earlier ones, and sells again after a fresh value", async () => {
    await feed.setRound(RATE);
    await priceBecomes(AMOUNT);
    const before = await gateway.sign();
    // This round reaches its maximum age in 2 to 3 seconds.
    await feed.setRound(RATE, Date.now() - MAX_AGE_MS + 3_000);
    const tooOld = {
      usable: false,
      rate: "3200",
      source: "chainlink",
      problem: expect.stringMatching(/^its answer is 360\d s old; expected at most 3600$/),
    };
    await eventually(async () => expect(await rateReport()).toMatchObject(tooOld));

    expect(await price()).toBe("503 price_unavailable");
    const { status, body } = await rawRequest(gateway.jobgate.x402Url, "POST /x402/jobs/1/0");
    expect([status, JSON.parse(body)]).toEqual([
      503,
      expect.objectContaining({ code: "price_unavailable", charged: false, retryable: true }),
    ]);
    expect(await isUsableInMetrics()).toBe("0");
    expect(await gateway.send(before, { body: "offered before" })).toMatchObject({ status: 202 });
    await gateway.waitForJobs("offered before");

    await feed.setRound(RATE);
    await priceBecomes(AMOUNT);
    expect(await isUsableInMetrics()).toBe("1");
    expect(gateway.jobgate.logs.join("\n")).toMatch(/a live rate cannot be refreshed/);
    expect(gateway.jobgate.logs.join("\n")).not.toContain("hunter2");
  });
});

describe("A source that is down", () => {
  it("Does not delay the start; the job is for sale once it answers", async () => {
    await feed.setRound(RATE);
    await feedRpc.goDown();
    await gateway.restart();
    expect(await price()).toBe("503 price_unavailable");
    expect(await rateReport()).toMatchObject({ usable: false, rate: "", problem: "its RPC does not answer" });
    await feedRpc.comeBack();
    await priceBecomes(AMOUNT);
  });
});

describe("A reload", () => {
  it("Changes the source, and the old feed is no longer read", async () => {
    const config = await readFile(gateway.jobgate.configPath, "utf8");
    const http = `rate_source.http = { url = "${server.url}", pointer = "/data/0/rate", max_age_secs = 60, refresh_secs = 0.2 }`;
    await gateway.jobgate.reload(config.replace(/^rate_source.*$/m, http));
    await priceBecomes(2n * AMOUNT);
    expect(await rateReport()).toMatchObject({ source: "http", rate: "6400", usable: true, problem: "" });
    const asked = feedRpc.requests.length;
    await feed.setRound(4n * RATE);
    // As often as the feed was read before.
    const enough = serverRequests + 3;
    await until(() => serverRequests >= enough);
    expect(feedRpc.requests).toHaveLength(asked);
    expect(await price()).toBe(String(2n * AMOUNT));
    await gateway.jobgate.reload(config);
    await priceBecomes(4n * AMOUNT);
  });

  it("Omits a token without a rate, and still offers the others", async () => {
    const config = await readFile(gateway.jobgate.configPath, "utf8");
    const nobody = 'rate_source.http = { url = "http://127.0.0.1:1", pointer = "", max_age_secs = 60 }';
    const other = `[[x402.accepted_tokens]]
network = "eip155:${parts.anvil.chainId}"
asset = "0x808456652fdb597867f38412077A9182bf77359F"
symbol = "EURC"
decimals = 6
pay_to = "${accounts.payTo.address}"
rate_per_native_unit = "1"
transfer_method = "eip3009"
eip3009_name = "EURC"
eip3009_version = "2"
`;
    await gateway.jobgate.reload(
      config.replace(/^rate_source.*$/m, nobody).replace("[job_pricing.1]", `${other}$&`),
    );
    await priceBecomes(1_000n);
    const { v2 } = await requestOffer(gateway.urlOf());
    expect(v2.accepts.map(({ extra, amount }) => [extra.name, amount])).toEqual([["EURC", "1000"]]);
    await gateway.jobgate.reload(config);
    await priceBecomes(4n * AMOUNT);
  });
});
