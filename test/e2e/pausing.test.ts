import { createHash } from "node:crypto";
import { afterEach, describe, expect, it } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch } from "../helpers/clients.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { ALL_PROTOCOLS, type PaidGateway, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const KEY = "key-of-ada-which-nobody-else-knows";
const REFUSED = { status: 503, code: "job_paused", charged: false, retryable: true, retryAfter: "60" };

/** Paths of the requests that reached the API. */
const seen: string[] = [];
const api = startBeforeAll(() =>
  listenHttp({
    handler({ url = "" }, response) {
      seen.push(url);
      response.end("sunny");
    },
  }),
);
const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) => `${config}
[[jobs]]
job_index = 2
name = "late"
price_wei = "1000000000000000"
charge = "after"
max_run_secs = 10
[[apis]]
name = "weather"
url = "${api.url}"
free = ["GET /free/{path...}"]
[[apis.access]]
api_keys = "ada ${createHash("sha256").update(KEY).digest("hex")}"
[[jobs]]
job_index = 9
route = "GET /weather/{city}"
api = "weather"
price_wei = "1000000000000000"
[[jobs]]
job_index = 10
route = "GET /climate/{city}"
api = "weather"
price_wei = "1000000000000000"
charge = "before"
answer = "accepted"
`,
  }),
);
const operator = (of: Pick<PaidGateway, "jobgate"> = gateway) =>
  createOperatorClient({ address: { url: of.jobgate.operatorUrl } });
const pause = (target: string, refuseAccepts = false) =>
  operator().pause({ target, refuseAccepts, by: "ada" });
const resume = (target: string) => operator().resume({ target, by: "ada" });
const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${gateway.jobgate.x402Url}${path}`, { headers });
const received = () => parts.usdc.balanceOf(accounts.payTo.address);

afterEach(async () => {
  for (const { kind, key } of (await operator().getTotals({})).paused) await resume(`${kind}:${key}`);
});

describe("A paused job", () => {
  it("takes payments unless they are refused, and its calls wait until it is resumed", async () => {
    await pause("1/0");
    const payment = await gateway.sign();
    const bought = await gateway.send(payment, { body: "waits" });
    expect(bought.status).toBe(202);
    await gateway.send(await gateway.sign({ job: 1 }), { job: 1, body: "goes on" });
    await gateway.waitForJobs("goes on");
    expect(gateway.jobsWith("waits")).toEqual([]);
    // To refuse from now on changes nothing for what was bought.
    await pause("1/0", true);
    expect(await gateway.send(payment, { body: "waits" })).toMatchObject({ call_id: bought.call_id });
    await resume("1/0");
    await gateway.waitForJobs("waits");
  });

  it.each(ALL_PROTOCOLS)(
    "refuses payments over %s before any money moves, and takes them later",
    async (protocol) => {
      const client = gateway.at(protocol);
      const payment = await client.sign();
      const before = await received();
      await pause("1/0", true);
      const body = `later over ${protocol}`;
      const { status: _, retryAfter: __, ...refused } = REFUSED;
      expect(await client.send(payment, { body })).toMatchObject(refused);
      expect(await received()).toBe(before);
      await resume("1/0");
      expect((await client.send(payment, { body })).call_id).toBeGreaterThan(0);
      await gateway.waitForJobs(body);
      expect(await received()).toBe(before + AMOUNT);
    },
  );

  it("answers a request without a payment 503 in place of an offer, and stays in the lists", async () => {
    await pause("1/0", true);
    expect(await gateway.send({ headers: {} })).toMatchObject(REFUSED);
    expect((await get("/x402/jobs/1/0")).status).toBe(503);
    for (const list of ["/x402/jobs", "/openapi.json"])
      expect(await (await get(list)).text()).toContain("/x402/jobs/1/0");
    expect((await gateway.send({ headers: {} }, { job: 1 })).status).toBe(402);
  });

  it("keeps its calls from its API over a restart", async () => {
    const network = `eip155:${parts.anvil.chainId}` as const;
    const pay = payingFetch({ account: accounts.payer, network, spendControls: false });
    const paused = gateway.duringSettle(() => pause("GET /climate/{city}"));
    expect((await pay(`${gateway.jobgate.x402Url}/climate/Oslo`)).status).toBe(202);
    await paused;
    await gateway.restart();
    // The API gets what comes later for another job.
    expect((await pay(`${gateway.jobgate.x402Url}/weather/Oslo`)).status).toBe(200);
    expect(seen).not.toContain("/climate/Oslo");
    await resume("GET /climate/{city}");
    await until(() => seen.includes("/climate/Oslo"));
  });

  it("is always refused if it is charged after it ran", async () => {
    const payment = await gateway.sign({ job: 2 });
    const { paused } = await pause("late");
    expect(paused?.pause?.refusesAccepts).toBe(true);
    expect(await gateway.send(payment, { job: 2 })).toMatchObject(REFUSED);
    await resume("late");
    expect((await gateway.send(payment, { job: 2 })).status).toBe(202);
  });
});

describe("A purchase that meets a pause", () => {
  it("gets its call if its payment is being settled already", async () => {
    const payment = await gateway.sign();
    const sent = gateway.duringSettle(() => pause("1/0", true), payment);
    expect(await gateway.send(payment, { body: "settled" })).toMatchObject({ status: 202 });
    await sent;
    expect(gateway.jobsWith("settled")).toEqual([]);
    await resume("1/0");
    await gateway.waitForJobs("settled");
  });

  it("is refused without a charge if its payment is being verified yet", async () => {
    const payment = await gateway.sign();
    const before = await received();
    const paused = gateway.facilitatorProxy.during({ path: "/verify" }, () => pause("1/0", true));
    expect(await gateway.send(payment)).toMatchObject(REFUSED);
    await paused;
    expect(await received()).toBe(before);
  });

  it("is charged if and only if it is accepted, however many meet it at once", async () => {
    const payments = await Promise.all(Array.from({ length: 6 }, () => gateway.sign()));
    const before = await received();
    const [first, ...others] = payments.map((payment) => gateway.send(payment));
    await first;
    const [answers] = await Promise.all([Promise.all([first, ...others]), pause("1/0", true)]);
    const accepted = answers.filter((answer) => answer?.status === 202).length;
    for (const answer of answers) if (answer?.status !== 202) expect(answer).toMatchObject(REFUSED);
    expect(await received()).toBe(before + BigInt(accepted) * AMOUNT);
  });
});

describe("A paused API", () => {
  it.each(["weather", "1/9"])("refuses whoever pays for %s, and clients that it knows", async (target) => {
    const reached = seen.length;
    const { paused } = await pause(target);
    expect(paused?.pause?.refusesAccepts).toBe(true);
    const unpaid = await get("/weather/rome");
    expect([unpaid.status, unpaid.headers.get("retry-after")]).toEqual([503, "60"]);
    expect(await unpaid.json()).toMatchObject({ code: "job_paused", charged: false });
    const known = await get("/weather/rome", { authorization: `Bearer ${KEY}` });
    expect(known.status).toBe(503);
    expect(await known.json()).toMatchObject({ code: "job_paused" });
    expect((await get("/free/page")).status).toBe(target === "weather" ? 503 : 200);
    expect(seen.slice(reached)).toEqual(target === "weather" ? [] : ["/free/page"]);
    await resume(target);
    expect((await get("/weather/rome", { authorization: `Bearer ${KEY}` })).status).toBe(200);
    expect((await get("/weather/rome")).status).toBe(402);
  });
});
