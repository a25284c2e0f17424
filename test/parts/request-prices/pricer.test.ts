import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Job } from "../../../src/config/config.ts";
import { parseRoute } from "../../../src/core/route.ts";
import type { PricerPricing } from "../../../src/parts/request-prices/config.ts";
import { accounts } from "../../helpers/accounts.ts";
import { requestOffer, signV1Payment, signV2Payment } from "../../helpers/clients.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { testFolder } from "../../helpers/test-folder.ts";
import { startAnotherGateway, type TestGateway } from "../../x402/gateway-harness.ts";
import { JOB, USDC } from "../../x402/payments.ts";

const JSON_BODY = { "content-type": "application/json" };
const MATCHED = "facilitator_unavailable";

const usd = (cents: bigint) => ({ unit: "usd", amount: cents * 10n ** 16n }) as const;

function pricedBy(url: string, more: Partial<Job> = {}, timeoutMs = 2_000): Job {
  const price: PricerPricing = {
    from: usd(1n),
    upTo: usd(100n),
    rule: "as the seller's program says",
    headers: [],
    byPricer: { url, timeoutMs },
  };
  return { ...JOB, ...more, price };
}

const shopOf = (jobs: readonly Job[], clock?: () => number) =>
  startAnotherGateway({
    config: {
      jobs,
      acceptedTokens: [{ ...USDC, markupBps: 0, currency: "USD" } as const],
      jobPolicies: [],
      limits: { maxUnpaidPerSecondPerClient: 1_000, maxVerifiesPerClient: 100, maxVerifies: 100 },
    },
    ...(clock && { clock }),
  });

/** A pricer that answers what it is told to, and remembers what it was asked. */
async function startPricer(first: unknown = { price: "$0.42" }) {
  const pricer = {
    answer: first,
    status: 200,
    asked: [] as Record<string, unknown>[],
    hold: Promise.resolve(),
  };
  const reply = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks = await request.toArray();
    pricer.asked.push(JSON.parse(Buffer.concat(chunks).toString()));
    await pricer.hold;
    const { answer, status } = pricer;
    response.writeHead(status).end(typeof answer === "string" ? answer : JSON.stringify(answer));
  };
  const handler: RequestListener = (request, response) => void reply(request, response);
  const { url, stop } = await listenHttp({ handler });
  onTestFinished(stop);
  return Object.assign(pricer, { url: `${url}/price?key=1`, handler, stop });
}

const buy = (shop: TestGateway, headers: Readonly<Record<string, string>>, body: string) =>
  shop.post({ ...JSON_BODY, ...headers }, { body });

describe("A pricer", () => {
  it("Gets the request, and its price and description are offered", async () => {
    const pricer = await startPricer({ price: "$0.42", description: "30 steps" });
    const route = parseRoute("POST /draw/{style}");
    const shop = await shopOf([pricedBy(pricer.url, { ...(route && { route }) })]);
    const body = '{"n":1}';
    const { v2, v1 } = await requestOffer(`${shop.url}/draw/oil?size=2&size=3`, body, JSON_BODY);
    expect(v2.accepts[0]).toMatchObject({ amount: "420000", extra: { description: "30 steps" } });
    expect(v1.accepts[0]?.maxAmountRequired).toBe("420000");
    expect(pricer.asked).toEqual([
      {
        service_id: "1",
        job_index: 0,
        method: "POST",
        path: "/draw/oil",
        query: "size=2&size=3",
        params: { style: "oil" },
        content_type: "application/json",
        size: 7,
        sha256: createHash("sha256").update(body).digest("hex"),
        body: Buffer.from(body).toString("base64"),
      },
    ]);
  });

  it("Gets no body above 64 KiB", async () => {
    const pricer = await startPricer();
    const shop = await startAnotherGateway({
      config: {
        jobs: [pricedBy(pricer.url)],
        acceptedTokens: [{ ...USDC, markupBps: 0, currency: "USD" } as const],
        maxBodyBytes: 100_000,
      },
    });
    for (const size of [65_536, 65_537]) await requestOffer(shop.jobUrl(), "x".repeat(size));
    expect(pricer.asked.map(({ body, size }) => [typeof body, size])).toEqual([
      ["string", 65_536],
      ["undefined", 65_537],
    ]);
  });

  it("Can listen at a Unix socket", async () => {
    const path = join(await testFolder(), "pricer");
    const { handler } = await startPricer({ price: "$0.03" });
    const server = createServer(handler);
    await new Promise<void>((resolve) => server.listen(path, resolve));
    onTestFinished(() => void server.close());
    const shop = await shopOf([pricedBy(`unix:${path}`)]);
    expect((await requestOffer(shop.jobUrl(), "work")).v2.accepts[0]?.amount).toBe("30000");
  });

  it("Is called once for equal requests, for as long as offers last", async () => {
    let nowMs = Date.now();
    const pricer = await startPricer();
    const shop = await shopOf([pricedBy(pricer.url)], () => nowMs);
    await Promise.all([1, 2, 3].map(() => requestOffer(shop.jobUrl(), "work")));
    pricer.answer = { price: "$0.50" };
    nowMs += 299_000;
    expect((await requestOffer(shop.jobUrl(), "work")).v2.accepts[0]?.amount).toBe("420000");
    expect(pricer.asked).toHaveLength(1);
    nowMs += 2_000;
    expect((await requestOffer(shop.jobUrl(), "work")).v2.accepts[0]?.amount).toBe("500000");
    expect((await requestOffer(shop.jobUrl(), "more")).v2.accepts[0]?.amount).toBe("500000");
    expect(pricer.asked).toHaveLength(3);
  });

  it("Has a lower price raised to the least", async () => {
    const { url } = await startPricer({ price: "$0.000001" });
    const shop = await shopOf([pricedBy(url)]);
    expect((await requestOffer(shop.jobUrl(), "work")).v2.accepts[0]?.amount).toBe("10000");
  });

  it("Refuses a request with its own status and error", async () => {
    const { url } = await startPricer({ refuse: { status: 404, error: "No such model." } });
    const shop = await shopOf([pricedBy(url)]);
    const answer = await buy(shop, {}, "{}");
    expect(answer).toMatchObject({
      status: 404,
      body: { code: "price_refused", error: expect.stringMatching(/^No such model\./), charged: false },
    });
  });
});

describe("There is no price, and no guess,", () => {
  const unavailable = { status: 503, body: { code: "price_unavailable", charged: false } };

  it("Of an answer that is not one", async () => {
    const pricer = await startPricer();
    const shop = await shopOf([pricedBy(pricer.url)]);
    const answers = [
      { price: "$1.01" },
      { price: "$0" },
      { price: "-$1" },
      { price: 0.42 },
      { price: "$0.0000001" },
      { price: "$0.42", refuse: { status: 422, error: "no" } },
      '{"price":"$0.42","price":"$0.43"}',
      { price: "$0.42", description: "two\nlines" },
      { price: "$0.42", most: 1 },
      { refuse: { status: 402, error: "no" } },
      { refuse: { status: 200, error: "no" } },
      { refuse: { status: 422 } },
      {},
      "",
      "$0.42",
      `{"price":"$0.42"}${" ".repeat(20_000)}`,
    ];
    for (const answer of answers) {
      pricer.answer = answer;
      expect(await buy(shop, {}, "{}")).toMatchObject(unavailable);
    }
    pricer.answer = { price: "$0.42" };
    pricer.status = 500;
    expect(await buy(shop, {}, "{}")).toMatchObject(unavailable);
    pricer.status = 200;
    expect((await buy(shop, {}, "{}")).status).toBe(402);
  });

  it("While the pricer is late, or down", async () => {
    const pricer = await startPricer();
    const shop = await shopOf([pricedBy(pricer.url, {}, 50)]);
    let release = () => {};
    pricer.hold = new Promise((resolve) => {
      release = resolve;
    });
    expect(await buy(shop, {}, "{}")).toMatchObject(unavailable);
    release();
    await pricer.stop();
    expect(await buy(shop, {}, "{}")).toMatchObject(unavailable);
  });

  it("Of a body that is encoded", async () => {
    const pricer = await startPricer();
    const shop = await shopOf([pricedBy(pricer.url)]);
    expect((await buy(shop, { "content-encoding": "gzip" }, "{}")).status).toBe(415);
    expect(pricer.asked).toEqual([]);
  });
});

it("One client can have 8 questions open at once, and each client's questions are counted", async () => {
  const pricer = await startPricer();
  const shop = await shopOf([pricedBy(pricer.url)]);
  let release = () => {};
  pricer.hold = new Promise((resolve) => {
    release = resolve;
  });
  const waiting = Array.from({ length: 8 }, (_, i) => buy(shop, {}, `{"n":${i}}`));
  await expect.poll(() => pricer.asked.length).toBe(8);
  expect(await buy(shop, {}, "{}")).toMatchObject({ status: 429, body: { code: "rate_limited" } });
  // An equal question needs no room.
  waiting.push(buy(shop, {}, '{"n":0}'));
  release();
  for (const answer of await Promise.all(waiting)) expect(answer.status).toBe(402);
  expect((await buy(shop, {}, "{}")).status).toBe(402);
});

describe("An offer at a pricer's price", () => {
  it("Is paid at that price, whatever the program says later, and the program is not called", async () => {
    const pricer = await startPricer();
    const shop = await shopOf([pricedBy(pricer.url)]);
    const { v2: offer } = await requestOffer(shop.jobUrl(), "{}", JSON_BODY);
    const payment = await signV2Payment({ offer, account: accounts.payer });
    const low = await signV2Payment({ offer, account: accounts.payer, authorization: { value: "1" } });
    // Another replica has no answer of the pricer.
    const another = await startAnotherGateway({ config: shop.config, store: shop.store });
    await pricer.stop();
    for (const at of [shop, another]) {
      expect((await buy(at, payment.headers, "{}")).body.code).toBe(MATCHED);
      const refused = await buy(at, low.headers, "{}");
      expect(refused.body).toMatchObject({ code: "payment_mismatch", charged: false });
      expect(refused.body.accepts).toMatchObject([{ maxAmountRequired: "420000" }]);
      expect((await buy(at, payment.headers, '{"n":1}')).status).not.toBe(202);
    }
    expect((await buy(another, payment.headers, '{"n":1}')).body.code).toBe("price_unavailable");
    expect(pricer.asked).toHaveLength(1);
  });

  it("Is paid without a seal by the kept answer, or if the pricer says the same again", async () => {
    let nowMs = Date.now();
    const pricer = await startPricer();
    const shop = await shopOf([pricedBy(pricer.url)], () => nowMs);
    const sign = async () => {
      const { v1: offer } = await requestOffer(shop.jobUrl(), "{}", JSON_BODY);
      const validBefore = String(Math.floor(nowMs / 1000) + 600);
      return signV1Payment({ offer, account: accounts.payer, authorization: { validBefore } });
    };
    const payment = await sign();
    pricer.answer = { price: "$0.50" };
    expect((await buy(shop, payment.headers, "{}")).body.code).toBe(MATCHED);
    nowMs += 301_000;
    expect((await buy(shop, payment.headers, "{}")).body.code).toBe("payment_mismatch");
    const next = await sign();
    nowMs += 301_000;
    const other = await startAnotherGateway({ config: shop.config, clock: () => nowMs });
    const fresh = await sign();
    expect((await buy(other, fresh.headers, "{}")).body.code).toBe(MATCHED);
    pricer.answer = { refuse: { status: 422, error: "Sold out." } };
    nowMs += 301_000;
    expect((await buy(shop, next.headers, "{}")).body.code).toBe("price_refused");
  });

  it("Outlives a reload with another program, which is called from then on", async () => {
    const [one, two] = [await startPricer(), await startPricer({ price: "$0.07" })];
    const shop = await shopOf([pricedBy(one.url)]);
    const { v2: offer } = await requestOffer(shop.jobUrl(), "{}", JSON_BODY);
    const payment = await signV2Payment({ offer, account: accounts.payer });
    await shop.reload({ ...shop.config, jobs: [pricedBy(two.url)] });
    expect((await buy(shop, payment.headers, "{}")).body.code).toBe(MATCHED);
    expect((await requestOffer(shop.jobUrl(), "{}", JSON_BODY)).v2.accepts[0]?.amount).toBe("70000");
    expect([one.asked.length, two.asked.length]).toEqual([1, 1]);
  });
});

it("The lists show the range, and no program is called for them", async () => {
  const pricer = await startPricer();
  const shop = await shopOf([pricedBy(pricer.url)]);
  const shown = await (await fetch(`${shop.url}/x402/jobs/1/0/price`)).json();
  expect(shown).toMatchObject({
    price: "$0.01",
    price_range: { min: "$0.01", max: "$1.00", rule: "as the seller's program says" },
  });
  expect((await fetch(shop.jobUrl())).status).toBe(402);
  expect(pricer.asked).toEqual([]);
});
