import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openStore } from "../../src/open-store.ts";
import type { Store } from "../../src/store/store.ts";
import type { OfferTerms } from "../../src/x402/offer.ts";
import { OfferBook } from "../../src/x402/offer-book.ts";
import { EURC, JOB, PRICE_WEI, USDC } from "./payments.ts";

const logger = pino({ level: "silent" });
const TTL_SECS = 300;

let folder: string;
let store: Store;
let now: number;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "jobgate-offers-"));
  store = await open();
});
beforeEach(async () => {
  await store.saveOffers([]);
  now = 1_800_000_000_000;
});
afterAll(async () => {
  await store?.close();
  await rm(folder, { recursive: true, force: true });
});

const open = () => openStore({ url: `sqlite:${join(folder, "jobgate.db")}`, maxPending: 10 }, logger);
const newBook = () => new OfferBook({ ledger: store, clock: () => now, logger });
const terms = (changes: Partial<OfferTerms> = {}): OfferTerms => ({
  job: JOB,
  priceWei: PRICE_WEI,
  tokens: [USDC],
  ttlSecs: TTL_SECS,
  ...changes,
});
const DOUBLE = terms({ priceWei: 2n * PRICE_WEI });
const amounts = (offers: readonly { amount: string }[]) => offers.map(({ amount }) => amount);

/** What a stopped process leaves to the next one: its store's file. */
async function restart(): Promise<OfferBook> {
  await store.close();
  store = await open();
  const book = newBook();
  await book.load();
  return book;
}

describe("an offer that was replaced", () => {
  it("is payable until its time ends, and is not made any more", async () => {
    const book = newBook();
    await book.publish([terms()]);
    await book.publish([DOUBLE]);
    expect(amounts(book.current(JOB))).toEqual(["6528000"]);
    expect(amounts(book.payable(JOB))).toEqual(["6528000", "3264000"]);
    now += TTL_SECS * 1000 - 1;
    expect(amounts(book.payable(JOB))).toEqual(["6528000", "3264000"]);
    now += 1;
    expect(amounts(book.payable(JOB))).toEqual(["6528000"]);
  });

  it("keeps its own time, also when the one that replaced it lives shorter", async () => {
    const book = newBook();
    await book.publish([terms()]);
    await book.publish([terms({ priceWei: 2n * PRICE_WEI, ttlSecs: 10 })]);
    now += 20_000;
    expect(amounts(book.payable(JOB))).toEqual(["6528000", "3264000"]);
  });

  it("is payable for its whole time from when it was last made, not from when it was first", async () => {
    const book = newBook();
    await book.publish([terms()]);
    now += 10 * TTL_SECS * 1000;
    await book.publish([DOUBLE]);
    now += TTL_SECS * 1000 - 1;
    expect(amounts(book.payable(JOB))).toEqual(["6528000", "3264000"]);
  });

  it("is one offer however often prices go back and forth", async () => {
    const book = newBook();
    for (let i = 0; i < 20; i++) await book.publish([i % 2 === 0 ? terms() : DOUBLE]);
    expect(amounts(book.payable(JOB))).toEqual(["6528000", "3264000"]);
    await book.publish([terms()]);
    expect(amounts(book.payable(JOB))).toEqual(["3264000", "6528000"]);
  });

  it("is forgotten after its time in the store too, so that reloads never add up", async () => {
    const book = newBook();
    for (let i = 1n; i <= 5n; i++) await book.publish([terms({ priceWei: i * PRICE_WEI })]);
    expect(await store.loadOffers()).toHaveLength(5);
    now += TTL_SECS * 1000;
    await book.publish([terms({ priceWei: 6n * PRICE_WEI })]);
    // The new one, and the one that was on offer until now.
    expect(await store.loadOffers()).toHaveLength(2);
  });
});

describe("after a restart", () => {
  it("an offer that was being made is payable for its whole time again", async () => {
    await newBook().publish([terms()]);
    now += 10 * TTL_SECS * 1000;
    const book = await restart();
    await book.publish([DOUBLE]);
    now += TTL_SECS * 1000 - 1;
    expect(amounts(book.payable(JOB))).toEqual(["6528000", "3264000"]);
    now += 1;
    expect(amounts(book.payable(JOB))).toEqual(["6528000"]);
  });

  it("an offer that had been replaced ends when it would have ended", async () => {
    const before = newBook();
    await before.publish([terms()]);
    await before.publish([DOUBLE]);
    now += 100_000;
    const book = await restart();
    await book.publish([DOUBLE]);
    expect(amounts(book.payable(JOB))).toEqual(["6528000", "3264000"]);
    now += TTL_SECS * 1000 - 100_000;
    expect(amounts(book.payable(JOB))).toEqual(["6528000"]);
  });

  it("ids and prices of 64 and 256 bits come back exact", async () => {
    const job = { serviceId: 2n ** 64n - 1n, jobIndex: 2 ** 32 - 1 };
    const big = terms({
      job,
      priceWei: 2n ** 63n + 1n,
      tokens: [{ ...USDC, ratePerNativeUnit: "1", markupBps: 0, decimals: 18 }, EURC],
    });
    const before = newBook();
    await before.publish([big]);
    const offers = before.current(job);
    expect(offers[0]?.amount).toBe("9223372036854775809");
    expect((await restart()).payable(job)).toEqual(offers);
  });
});

describe("jobs", () => {
  it("An offer is for its job alone", async () => {
    const book = newBook();
    const other = { serviceId: 1n, jobIndex: 1 };
    await book.publish([terms(), terms({ job: other, priceWei: 2n * PRICE_WEI })]);
    expect(amounts(book.payable(JOB))).toEqual(["3264000"]);
    expect(amounts(book.payable(other))).toEqual(["6528000"]);
    expect(book.payable({ serviceId: 2n, jobIndex: 0 })).toEqual([]);
  });

  it("Offers that the store does not take are not made", async () => {
    const book = newBook();
    await book.publish([terms()]);
    await store.close();
    await expect(book.publish([DOUBLE])).rejects.toThrow();
    expect(amounts(book.current(JOB))).toEqual(["3264000"]);
    store = await open();
  });
});
