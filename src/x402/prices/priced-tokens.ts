import type { AcceptedToken } from "../../config/config.ts";
import type { RateBoard } from "../../pricing/rates/rate-board.ts";
import type { PricedToken } from "../wire/offer.ts";

/** The tokens that can be asked for now, each at its rate now. */
export function pricedTokens(tokens: readonly AcceptedToken[], rates: RateBoard): PricedToken[] {
  return tokens.flatMap((token) => {
    const rate = rates.rateOf(token);
    return rate === undefined ? [] : [{ ...token, ratePerNativeUnit: rate.ratePerNativeUnit }];
  });
}
