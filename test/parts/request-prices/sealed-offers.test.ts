import type { PaymentPayload } from "@x402/core/types";
import { describe, expect, it } from "vitest";
import type { Job } from "../../../src/config/config.ts";
import { parseDollars } from "../../../src/core/amounts.ts";
import { parseRoute } from "../../../src/core/route.ts";
import type { RulePricing } from "../../../src/parts/request-prices/config.ts";
import { RuleTerms } from "../../../src/parts/request-prices/request-prices.ts";
import { boundsOf, parseMeasure, type Rule } from "../../../src/parts/request-prices/rule.ts";
import { SealedOffers } from "../../../src/x402/prices/offer-book.ts";
import { accounts } from "../../helpers/accounts.ts";
import { requestOffer, signV1Payment, signV2Payment } from "../../helpers/clients.ts";
import { expectDocumented } from "../../helpers/documented-order.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startAnotherGateway, startTestGateway, type TestGateway } from "../../x402/gateway-harness.ts";
import { JOB, USDC } from "../../x402/payments.ts";

const usd = (text: string) => parseDollars(text)?.amount ?? 0n;
const JSON_BODY = { "content-type": "application/json" };
const DOLLARS = { ...USDC, markupBps: 0, currency: "USD" } as const;

function pricedBy(eachText: string, of = "json:/n"): Job {
  const measure = parseMeasure(of);
  if (measure === undefined) throw new Error("no measure");
  const each = usd(eachText);
  const byRule: Rule = { kind: "each", measure, base: 0n, each, min: usd("$0.01"), max: usd("$5") };
  const { from, upTo } = boundsOf(byRule);
  const price: RulePricing = {
    from: { unit: "usd", amount: from },
    upTo: { unit: "usd", amount: upTo },
    rule: "by n",
    headers: [],
    byRule,
  };
  return { ...JOB, price };
}

const config = {
  jobs: [pricedBy("$0.002"), { ...pricedBy("$0.002"), jobIndex: 1 }],
  acceptedTokens: [DOLLARS],
  jobPolicies: [],
};
let nowMs = Date.now();
const clock = () => nowMs;
const gateway = startBeforeAll(() => startTestGateway({ config, clock }));

const offerFor = (n: number, shop: TestGateway = gateway) =>
  requestOffer(shop.jobUrl(), `{"n":${n}}`, JSON_BODY);

async function paymentFor(n: number, edit?: (payload: PaymentPayload) => PaymentPayload) {
  const { v2: offer } = await offerFor(n);
  return signV2Payment({ offer, account: accounts.payer, ...(edit && { edit }) });
}

/** Returns what a payment is refused as: a payment that answers an open offer reaches the facilitator, which is not there. */
async function outcome(
  { headers }: { readonly headers: Readonly<Record<string, string>> },
  n: number,
  { shop = gateway, job = 0, more = {} } = {},
) {
  const answer = await shop.post({ ...JSON_BODY, ...headers, ...more }, { job, body: `{"n":${n}}` });
  return answer.body.code;
}

const MATCHED = "facilitator_unavailable";
const OTHER = "payment_mismatch";

describe("An offer for one request", () => {
  it("Is exact, and is not written to the store", async () => {
    const { v2, v1 } = await offerFor(6);
    expect(v2.accepts[0]).toMatchObject({ amount: "12000", extra: { sealedOffer: expect.any(String) } });
    expect(v1.accepts[0]?.maxAmountRequired).toBe("12000");
    expect(await gateway.store.findOffers(JOB)).toEqual([]);
  });

  it("Is paid by the request that asked for it, and by no other", async () => {
    const payment = await paymentFor(6);
    expect(await outcome(payment, 6)).toBe(MATCHED);
    expect(await outcome(payment, 7)).toBe(OTHER);
    expect(await outcome(payment, 5)).toBe(OTHER);
    expect(await outcome(payment, 6, { job: 1 })).toBe(OTHER);
    expect(await outcome(payment, 6, { more: { "content-type": "application/ld+json" } })).toBe(OTHER);
    expect(await outcome(payment, 6, { more: { "content-encoding": "gzip" } })).toBe(
      "unsupported_media_type",
    );
  });

  it("Is not paid by a forged one, nor at another amount", async () => {
    const changed = (change: (text: string) => unknown) => (payload: PaymentPayload) => {
      const { sealedOffer, ...extra } = payload.accepted.extra;
      return {
        ...payload,
        accepted: { ...payload.accepted, extra: { ...extra, sealedOffer: change(String(sealedOffer)) } },
      };
    };
    const cheap = changed((text) => {
      const [offer = "", seal] = text.split(".");
      const json = Buffer.from(offer, "base64url").toString().replace('"12000"', '"1"');
      return `${Buffer.from(json).toString("base64url")}.${seal}`;
    });
    for (const edit of [
      cheap,
      changed(() => ""),
      changed(() => "."),
      changed(() => ({ toString: 1 })),
      changed((text) => `${text}.`),
      changed((text) => text.slice(0, -1)),
    ])
      expect(await outcome(await paymentFor(6, edit), 6)).toBe(OTHER);
    const { v2: offer } = await offerFor(6);
    const value = "1";
    const edit = (payload: PaymentPayload) => {
      const { accepted, ...forged } = cheap(payload);
      return { ...forged, accepted: { ...accepted, amount: value } };
    };
    const forged = await signV2Payment({ offer, account: accounts.payer, authorization: { value }, edit });
    expect(await outcome(forged, 6)).toBe(OTHER);
    const low = await signV2Payment({ offer, account: accounts.payer, authorization: { value: "11999" } });
    expect(await outcome(low, 6)).toBe(OTHER);
  });

  it("Is not read before its seal is checked", async () => {
    const headers = Array.from({ length: 500_000 }, () => "x-tier");
    const parts = Buffer.from(`${JSON.stringify({ headers, hash: "" })}\n{}`).toString("base64url");
    const read: unknown[] = [];
    const sealed = new SealedOffers({ seal: () => "right" });
    expect(sealed.open({ sealedOffer: `${parts}.wrong` }, (names) => `${read.push(names)}`)).toBeUndefined();
    expect(read).toEqual([]);
  });

  it("Is paid at its price over a reload with another rule, at every replica, until it ends", async () => {
    const another = await startAnotherGateway({ config, clock, store: gateway.store });
    const payment = await paymentFor(6);
    const v1 = await signV1Payment({ offer: (await offerFor(6)).v1, account: accounts.payer });
    await another.reload({ ...config, jobs: [pricedBy("$0.003")] });
    expect((await offerFor(6, another)).v2.accepts[0]?.amount).toBe("18000");
    expect(await outcome(payment, 6, { shop: another })).toBe(MATCHED);
    // A payment of v1 does not say which offer it answers.
    expect(await outcome(v1, 6, { shop: another })).toBe(OTHER);
    expect(await outcome(v1, 6)).toBe(MATCHED);
    const { v2: offer } = await offerFor(6);
    const validBefore = String(Math.floor(nowMs / 1000) + 600);
    const fresh = await signV2Payment({ offer, account: accounts.payer, authorization: { validBefore } });
    nowMs += 299_000;
    expect(await outcome(fresh, 6)).toBe(MATCHED);
    nowMs += 2_000;
    expect(await outcome(fresh, 6)).toBe(OTHER);
  });

  it("Is paid at its price over a reload to one price for all requests, and to a price of other headers", async () => {
    nowMs = Date.now();
    const another = await startAnotherGateway({ config, clock, store: gateway.store });
    const payment = await paymentFor(6);
    const later = await paymentFor(8);
    await another.reload({ ...config, jobs: [{ ...JOB, price: { unit: "usd", amount: usd("$1") } }] });
    expect((await offerFor(6, another)).v2.accepts[0]?.amount).toBe("1000000");
    expect(await outcome(payment, 7, { shop: another })).toBe(OTHER);
    expect(await outcome(payment, 6, { shop: another })).toBe(MATCHED);
    await another.reload({ ...config, jobs: [pricedBy("$0.003", "header:x-tier")] });
    expect(await outcome(later, 8, { shop: another })).toBe(MATCHED);
    // Its price is of a request without that header.
    expect(await outcome(later, 8, { shop: another, more: { "x-tier": "1" } })).toBe(OTHER);
    nowMs += 301_000;
    expect(await outcome(later, 8, { shop: another, more: { "x-tier": "1" } })).toBe(OTHER);
  });

  it("Is matched by the price of its request if a client sends no seal back", async () => {
    nowMs = Date.now();
    const unsealed = (payload: PaymentPayload) => {
      const { sealedOffer: _, ...extra } = payload.accepted.extra;
      return { ...payload, accepted: { ...payload.accepted, extra } };
    };
    const payment = await paymentFor(6, unsealed);
    expect(await outcome(payment, 6)).toBe(MATCHED);
    expect(await outcome(payment, 7)).toBe(OTHER);
  });
});

describe("A request that has no price", () => {
  it("Is refused with what can be bought, with a payment or without", async () => {
    for (const headers of [{}, (await paymentFor(6)).headers])
      expect(await gateway.post({ ...JSON_BODY, ...headers }, { body: '{"n":2501}' })).toMatchObject({
        status: 422,
        body: {
          code: "invalid_input",
          charged: false,
          most: "2500",
          invalid: [{ path: "/n", message: "must be at most 2500" }],
        },
      });
    const form = await gateway.post({ "content-type": "text/plain" }, { body: '{"n":1}' });
    expect(form).toMatchObject({ status: 415, body: { code: "unsupported_media_type", charged: false } });
  });

  it("Is offered at min without a body, and not sold", async () => {
    const { v2: offer } = await requestOffer(gateway.jobUrl(), "");
    expect(offer.accepts[0]?.amount).toBe("10000");
    const payment = await signV2Payment({ offer, account: accounts.payer });
    expect(await outcome(payment, 1)).toBe(OTHER);
    expect(await gateway.post(payment.headers, { body: "" })).toMatchObject({
      status: 422,
      body: { code: "invalid_input", charged: false, invalid: [{ path: "/n", message: "is missing" }] },
    });
    const another = await startAnotherGateway({ config, clock, store: gateway.store });
    await another.reload({ ...config, jobs: [pricedBy("$0.002", "body:KiB")] });
    expect(await another.post(payment.headers, { body: "" })).toMatchObject({
      status: 402,
      body: { code: OTHER, charged: false },
    });
    const shown = await fetch(gateway.jobUrl());
    expect([shown.status, await shown.json()]).toMatchObject([
      402,
      { accepts: [{ maxAmountRequired: "10000" }] },
    ]);
  });
});

describe("The lists of jobs", () => {
  const read = async (path: string) => (await fetch(`${gateway.url}${path}`)).text();

  it("Say the range and the rule", async () => {
    const range = { min: "$0.01", max: "$5.00", rule: "by n" };
    expect(JSON.parse(await read("/x402/jobs")).jobs[0]).toMatchObject({
      price: "$0.01",
      price_range: range,
    });
    expect(JSON.parse(await read("/x402/jobs/1/0/price"))).toMatchObject({
      price: "$0.01",
      price_range: range,
    });
    const { paths } = JSON.parse(await read("/openapi.json"));
    expect(paths["/x402/jobs/1/0"].post["x-payment-info"]).toMatchObject({
      price: { mode: "dynamic", currency: "USD", min: "0.01", max: "5" },
      offers: [{ amount: null }],
    });
    expect(await read("/llms.txt")).toContain("$0.01 to $5.00 (by n), from 0.01 USDC");
  });
});

it("Of a query, the parameters of the path are no fields", async () => {
  const route = parseRoute("POST /draw/{style}");
  const measure = parseMeasure("query:n");
  if (route === undefined || measure === undefined) throw new Error("no route or no measure");
  const { price, ...job } = pricedBy("$0.002");
  const byRule = { ...(price as RulePricing).byRule, measure } as Rule;
  const parameters = { properties: { n: {}, style: {} }, required: [], additionalProperties: true };
  const sold = { ...job, route, parameters, price: { ...(price as RulePricing), byRule } };
  const shop = await startAnotherGateway({ config: { ...config, jobs: [sold] } });
  const draw = async (query: string) =>
    (await fetch(`${shop.url}/draw/oil?${query}`, { method: "POST" })).status;
  expect([await draw("n=6"), await draw("n=6&style=ink")]).toEqual([402, 422]);
});

it("docs/errors.md prints the check for a value that the rule reads at its place, with its refusals", () => {
  for (const check of new RuleTerms([]).checks) expectDocumented(check);
});
