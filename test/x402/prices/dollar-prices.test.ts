import pino from "pino";
import { describe, expect, it } from "vitest";
import type { AcceptedToken, Job } from "../../../src/config/config.ts";
import { parseDollars, type UsdPrice } from "../../../src/core/amounts.ts";
import { OfferBook } from "../../../src/x402/prices/offer-book.ts";
import { createJobPrices, PayableTokens, type PriceSource } from "../../../src/x402/prices/price-source.ts";
import { requestOffer } from "../../helpers/clients.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { startTestGateway } from "../gateway-harness.ts";
import { EURC, FIXED_RATES, JOB, PRICE_WEI, USDC } from "../payments.ts";

const dollars = (text: string) => parseDollars(text) as UsdPrice;
const job = (jobIndex: number, price: Job["price"]): Job => ({
  serviceId: 1n,
  jobIndex,
  ...(price && { price }),
});

/** Worth one dollar, with a markup of 2 %. */
const DOLLAR: AcceptedToken = { ...USDC, currency: "USD" };
/** The same without a markup, and with 18 decimals. */
const { rate: _, ...UNRATED } = DOLLAR;
const WIDE: AcceptedToken = { ...UNRATED, asset: USDC.payTo, symbol: "DAI", decimals: 18, markupBps: 0 };

const gateway = startBeforeAll(() =>
  startTestGateway({
    config: {
      acceptedTokens: [DOLLAR, EURC, WIDE],
      jobs: [job(0, dollars("$0.01")), job(4, dollars("$1.5")), job(5, { unit: "wei", amount: PRICE_WEI })],
    },
  }),
);

async function priceOf(jobIndex: number) {
  const response = await fetch(`${gateway.jobUrl(jobIndex)}/price`);
  const { settlement_options, ...body } = (await response.json()) as {
    settlement_options: { symbol: string; amount: string }[];
  };
  return { ...body, amounts: settlement_options.map(({ symbol, amount }) => `${amount} ${symbol}`) };
}

describe("A price in dollars", () => {
  it("Is shown as such, with exact amounts in tokens that are worth a dollar", async () => {
    expect(await priceOf(0)).toEqual({
      service_id: 1,
      job_index: 0,
      price: "$0.01",
      amounts: ["10200 USDC", "10000000000000000 DAI"],
    });
    expect(await priceOf(4)).toMatchObject({
      price: "$1.50",
      amounts: ["1530000 USDC", "1500000000000000000 DAI"],
    });
  });

  it("Leaves a price in wei to the tokens with a rate", async () => {
    expect(await priceOf(5)).toEqual({
      service_id: 1,
      job_index: 5,
      price_wei: String(PRICE_WEI),
      amounts: ["3264000 USDC", "3264000 EURC"],
    });
  });

  it("Takes precedence over the map, and is offered in the 402", async () => {
    const { v2 } = await requestOffer(gateway.jobUrl(0));
    expect(v2.accepts.map(({ amount }) => amount)).toEqual(["10200", "10000000000000000"]);
  });

  it("Changes on a reload", async () => {
    await gateway.reload({ acceptedTokens: [DOLLAR], jobs: [job(0, dollars("$0.02"))] });
    expect(await priceOf(0)).toMatchObject({ price: "$0.02", amounts: ["20400 USDC"] });
    await gateway.reload({ acceptedTokens: [DOLLAR] });
    expect(await priceOf(0)).toMatchObject({ price_wei: String(PRICE_WEI), amounts: ["3264000 USDC"] });
  });
});

it("An offer keeps the price in 10^-18 dollars, which its digest is made of, and its currency in the store", async () => {
  const now = 1_700_000_000_000;
  const opened = await openTestStore({ clock: () => now });
  const logger = pino({ level: "silent" });
  const book = new OfferBook({ ledger: opened.store, rates: FIXED_RATES, clock: () => now, logger });
  const price = { priceWei: dollars("$0.01").amount, currency: "USD" } as const;
  const tokens = new PayableTokens([DOLLAR]).for(price);
  const [offer] = await book.make({ job: JOB, ...price, tokens, ttlSecs: 300 });
  if (offer === undefined) throw new Error("no offer was made");
  expect(offer).toMatchObject({ priceWei: 10n ** 16n, currency: "USD", amount: "10200" });
  expect(await book.findOpen(JOB)).toEqual([offer]);
  await opened.stop();
});

it("A job whose price is the engine's is priced by it alone, and has no price without one", async () => {
  const engine: PriceSource = { priceOf: async () => ({ priceWei: 7n }) };
  const otherwise: PriceSource = { priceOf: async () => ({ priceWei: 1n }) };
  const jobs = [job(0, "engine"), job(1, dollars("$1")), job(2, undefined)];
  const prices = createJobPrices({ jobs, named: engine, otherwise });
  const at = (jobIndex: number) => ({ serviceId: 1n, jobIndex });
  expect(await prices.priceOf(at(0))).toEqual({ priceWei: 7n });
  expect(await prices.priceOf(at(1))).toEqual({ priceWei: 10n ** 18n, currency: "USD" });
  expect(await prices.priceOf(at(2))).toEqual({ priceWei: 1n });
  expect(await createJobPrices({ jobs, named: undefined, otherwise }).priceOf(at(0))).toBeUndefined();
});
