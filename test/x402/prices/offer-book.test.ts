import pino from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { NewOffer } from "../../../src/store/contract/price-ledgers.ts";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { OfferBook } from "../../../src/x402/prices/offer-book.ts";
import { makeOffers, type OfferTerms, secsUntil } from "../../../src/x402/wire/offer.ts";
import { openTestStore, type TestStore } from "../../helpers/test-store.ts";
import { EURC, FIXED_RATES, JOB, PRICE_WEI, USDC } from "../payments.ts";

const logger = pino({ level: "silent" });
const TTL_SECS = 300;
/** An offer may stay payable this much longer than its lifetime. */
const SLACK_MS = 1000;

let opened: TestStore;
let store: Store;
let book: OfferBook;
let now: number;
let writes: (readonly NewOffer[])[];

beforeEach(async () => {
  now = 1_800_000_000_000;
  opened = await openTestStore({ clock: () => now });
  openBook(opened.store);
});
afterEach(async () => {
  await store.close();
  await opened.stop();
});

function openBook(opened: Store): void {
  store = opened;
  writes = [];
  const ledger = {
    findOffers: (job: typeof JOB) => store.findOffers(job),
    saveOffers: (offers: readonly NewOffer[]) => {
      writes.push(offers);
      return store.saveOffers(offers);
    },
  };
  book = new OfferBook({ ledger, rates: FIXED_RATES, clock: () => now, logger });
}

const terms = (changes: Partial<OfferTerms> = {}): OfferTerms => ({
  job: JOB,
  priceWei: PRICE_WEI,
  tokens: [USDC],
  ttlSecs: TTL_SECS,
  ...changes,
});
const DOUBLE = terms({ priceWei: 2n * PRICE_WEI });
const amounts = (offers: readonly { amount: string }[]) => offers.map(({ amount }) => amount);
const openAmounts = async (job = JOB) => amounts(await book.findOpen(job));

describe("An offer", () => {
  it("Stays payable for its lifetime after it was last made, not first made", async () => {
    await book.make(terms());
    now += 200_000;
    await book.make(terms());
    now += TTL_SECS * 1000 - 1;
    expect(await openAmounts()).toEqual(["3264000"]);
    now += SLACK_MS + 1;
    expect(await openAmounts()).toEqual([]);
  });

  it("Stays payable next to the offer that replaced it, even if that one ends sooner", async () => {
    await book.make(terms());
    await book.make(terms({ priceWei: 2n * PRICE_WEI, ttlSecs: 10 }));
    expect(await openAmounts()).toEqual(["3264000", "6528000"]);
    now += 20_000;
    expect(await openAmounts()).toEqual(["3264000"]);
  });

  it.each<Partial<OfferTerms>>([
    { priceWei: 2n * PRICE_WEI },
    { ttlSecs: 299 },
    { tokens: [EURC] },
    { digest: "cd".repeat(32) },
    { endSecs: 1_800_000_301 },
    { confidentiality: "tee" },
    { onFailure: "ask" },
  ])("Is kept until a term changes: %o", async (change) => {
    const kept = terms({ digest: "ab".repeat(32), endSecs: 1_800_000_300 });
    const offers = await book.make(kept);
    expect(await book.make({ ...kept })).toBe(offers);
    const changed = { ...kept, ...change };
    expect(await book.make(changed)).toEqual(makeOffers(changed, FIXED_RATES));
    expect(await book.make(kept)).toEqual(offers);
  });

  it("Is saved as one offer however often prices go back and forth", async () => {
    for (let i = 0; i < 20; i++) await book.make(i % 2 === 0 ? terms() : DOUBLE);
    expect((await openAmounts()).sort()).toEqual(["3264000", "6528000"]);
  });

  it("Is saved before it is shown, then about once a second however often it is made", async () => {
    for (let i = 0; i < 50; i++) {
      await book.make(terms());
      expect(await openAmounts()).toEqual(["3264000"]);
      now += 100;
    }
    expect(writes.length).toBeGreaterThan(3);
    expect(writes.length).toBeLessThan(7);
  });

  it("Is made even if it cannot be saved, and saved as soon as the store works", async () => {
    await store.close();
    expect(amounts(await book.make(terms()))).toEqual(["3264000"]);
    openBook(await opened.openAgain());
    await book.make(terms());
    expect(await openAmounts()).toEqual(["3264000"]);
  });

  it("Stays payable after a restart until it ends", async () => {
    await book.make(terms());
    await store.close();
    now += 100_000;
    openBook(await opened.openAgain());
    expect(await openAmounts()).toEqual(["3264000"]);
    now += TTL_SECS * 1000 - 100_000 + SLACK_MS;
    expect(await openAmounts()).toEqual([]);
  });

  it("Ends by the store's clock, however far the gateway's clock is behind or ahead", async () => {
    for (const offsetMs of [-400_000, 400_000]) {
      const job = { serviceId: 1n, jobIndex: offsetMs > 0 ? 1 : 2 };
      const elsewhere = new OfferBook({
        ledger: store,
        rates: FIXED_RATES,
        clock: () => now + offsetMs,
        logger,
      });
      await elsewhere.make(terms({ job }));
      now += TTL_SECS * 1000;
      expect(await openAmounts(job)).toEqual(["3264000"]);
      now += SLACK_MS;
      expect(await openAmounts(job)).toEqual([]);
    }
  });

  it("Is read back exactly, with 64-bit ids and 256-bit prices", async () => {
    const job = { serviceId: 2n ** 64n - 1n, jobIndex: 2 ** 32 - 1 };
    const big = terms({
      job,
      priceWei: 2n ** 63n + 1n,
      digest: "ab".repeat(32),
      tokens: [{ ...USDC, rate: { kind: "fixed", ratePerNativeUnit: "1" }, markupBps: 0, decimals: 18 }],
    });
    const made = await book.make(big);
    expect(made[0]?.amount).toBe("9223372036854775809");
    expect(await book.findOpen(job)).toEqual(made);
  });

  it("Is payable only for its own job", async () => {
    await book.make(terms());
    await book.make(terms({ job: { serviceId: 1n, jobIndex: 1 }, priceWei: 2n * PRICE_WEI }));
    expect(await openAmounts()).toEqual(["3264000"]);
    expect(await openAmounts({ serviceId: 1n, jobIndex: 1 })).toEqual(["6528000"]);
    expect(await openAmounts({ serviceId: 2n, jobIndex: 0 })).toEqual([]);
  });
});

describe("An offer at a price that ends", () => {
  const ending = (secsLeft: number) => {
    const endSecs = now / 1000 + secsLeft;
    return (): OfferTerms =>
      terms({ digest: "ab".repeat(32), endSecs, ttlSecs: Math.min(TTL_SECS, secsUntil(endSecs, now)) });
  };

  it("Ends with the price, says so, and is saved once", async () => {
    const atPrice = ending(30);
    expect((await book.make(atPrice()))[0]?.ttlSecs).toBe(30);
    for (let secs = 0; secs < 14; secs++) {
      now += 1_000;
      await book.make(atPrice());
    }
    expect((await book.make(atPrice()))[0]?.ttlSecs).toBe(16);
    expect((await book.findOpen(JOB))[0]?.ttlSecs).toBe(16);
    expect(writes).toHaveLength(1);
    now += 15_500;
    expect(await openAmounts()).toEqual([]);
    expect(await store.findOffers(JOB)).toHaveLength(1);
    now += 500;
    expect(await store.findOffers(JOB)).toEqual([]);
  });

  it("Lasts no longer than other offers at a time, however long the quote lasts", async () => {
    expect((await book.make(ending(TTL_SECS * 10)()))[0]?.ttlSecs).toBe(TTL_SECS);
  });
});

describe("While the disk stalls", () => {
  it("An offer that is saved already is shown at once, a new one only when it is saved", async () => {
    await store.close();
    const threaded = await openSqliteStore({
      path: opened.path,
      maxPending: 1_000,
      encodeJobCall: ({ body }) => body,
      clock: () => now,
    });
    openBook(threaded);
    await book.make(terms());
    const stall = openDriver(opened.path);
    stall.exec("BEGIN IMMEDIATE");
    let isNewShown = false;
    for (let minute = 0; minute < 3; minute++) {
      now += 60_000;
      expect(amounts(await book.make(terms()))).toEqual(["3264000"]);
    }
    const shown = book.make(DOUBLE).then(() => {
      isNewShown = true;
    });
    expect(amounts(await book.make(terms()))).toEqual(["3264000"]);
    expect(isNewShown).toBe(false);
    stall.exec("ROLLBACK");
    stall.close();
    await shown;
    expect((await openAmounts()).sort()).toEqual(["3264000", "6528000"]);
  });
});

describe("The offers for a job", () => {
  it("Are one for each token, in the configured order", async () => {
    const offers = await book.make(terms({ tokens: [EURC, USDC] }));
    expect(offers.map(({ token }) => token.symbol)).toEqual(["EURC", "USDC"]);
  });

  it("Leave out a token whose amount rounds to 0 or does not fit u64", async () => {
    const dear = { ...EURC, decimals: 36 };
    const cheap = {
      ...EURC,
      symbol: "WBTC",
      rate: { kind: "fixed", ratePerNativeUnit: "0.0000000001" },
    } as const;
    const offers = await book.make(terms({ tokens: [dear, USDC, cheap] }));
    expect(offers.map(({ token }) => token.symbol)).toEqual(["USDC"]);
  });
});
