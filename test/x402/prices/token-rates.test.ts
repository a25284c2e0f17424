import { expect, test } from "vitest";
import type { AcceptedToken } from "../../../src/config/config.ts";
import { TokenRates } from "../../../src/x402/prices/token-rates.ts";
import { EURC, USDC } from "../payments.ts";

const { network, asset, symbol } = USDC;

test("A fixed rate is available at once, and has no time", async () => {
  const rates = new TokenRates(undefined);
  const token: AcceptedToken = { ...USDC, rate: { kind: "fixed", ratePerNativeUnit: "3200.00" } };
  const rate = { ratePerNativeUnit: "3200.00" };
  expect(rates.rateOf(token)).toEqual(rate);
  await rates.watch([token]);
  expect(rates.rateOf(token)).toEqual(rate);
  expect(rates.report()).toEqual([{ network, asset, symbol, source: "fixed", rate, usable: true }]);
});

test("A report has every accepted token, also a token that needs no rate", async () => {
  const rates = new TokenRates(undefined);
  const { rate: _, ...unrated } = USDC;
  await rates.watch([unrated, EURC]);
  expect(rates.report()[0]).toEqual({ network, asset, symbol, source: "none", usable: true });
  expect(rates.report()[1]).toMatchObject({ symbol: EURC.symbol, source: "fixed" });
});

test("A report has a token once that is accepted by two methods, and once for each of its rates", async () => {
  const rates = new TokenRates(undefined);
  const at = (ratePerNativeUnit: string, transferMethod: AcceptedToken["transferMethod"]): AcceptedToken => ({
    ...USDC,
    transferMethod,
    rate: { kind: "fixed", ratePerNativeUnit },
  });
  await rates.watch([at("3200.00", "eip3009"), at("3200.00", "other"), at("3100.00", "other")]);
  expect(rates.report().map(({ rate }) => rate?.ratePerNativeUnit)).toEqual(["3200.00", "3100.00"]);
});

test("A live rate is refused where nothing watches live rates, and the rates stay as they were", async () => {
  const rates = new TokenRates(undefined);
  await rates.watch([USDC]);
  const live: AcceptedToken = { ...EURC, rate: { kind: "http" } };
  await expect(rates.watch([live])).rejects.toThrow(
    `The rate of ${EURC.network} EURC comes from a live source (http), but nothing watches live rates here`,
  );
  expect(rates.report()).toMatchObject([{ symbol: "USDC" }]);
});
