import pino from "pino";
import { expect, it } from "vitest";
import { QuoteEnds, requireLasting } from "../../../src/parts/pricing-engine/quote-ends.ts";
import { JOB, PRICE_WEI } from "../../x402/payments.ts";

it("A quote is no price with 7 s or less left, and the log says so once for a job", async () => {
  const logged: unknown[] = [];
  const logger = pino({ base: null }, { write: (line) => logged.push(JSON.parse(line)) });
  let now = 1_800_000_000_000;
  const clock = () => now;
  const price = { priceWei: PRICE_WEI, endSecs: now / 1000 + 8 };
  const prices = new QuoteEnds({ clock, logger }).lasting({ priceOf: async () => price });
  expect(await prices.priceOf(JOB)).toEqual(price);
  expect(() => requireLasting(price, clock)).not.toThrow();
  now += 1_000;
  for (let n = 0; n < 3; n++)
    await expect(prices.priceOf(JOB)).rejects.toMatchObject({ code: "price_unavailable" });
  expect(() => requireLasting(price, clock)).toThrow("the pricing engine's quote ends too soon to be paid");
  expect(logged).toMatchObject([{ level: 40, job: "1/0", secsLeft: 7 }]);
});
