import type { AcceptedToken } from "../../config/config.ts";
import type { JobPrice } from "./price-source.ts";

/** The accepted tokens by the prices that they can be offered for. */
export class PayableTokens {
  /** Tokens with a rate. */
  readonly forWei: readonly AcceptedToken[];
  readonly #forUsd: readonly AcceptedToken[];

  constructor(tokens: readonly AcceptedToken[]) {
    this.forWei = tokens.filter(({ rate }) => rate !== undefined);
    this.#forUsd = tokens
      .filter(({ currency }) => currency === "USD")
      .map((token) => ({ ...token, rate: { kind: "fixed", ratePerNativeUnit: "1" } }));
  }

  /**
   * Returns the tokens for a price, always in the same array. For a price in dollars their rate is one token for one
   * dollar: the price is in 10^-18 dollars, so amounts are made as for wei.
   */
  for({ currency }: Pick<JobPrice, "currency">): readonly AcceptedToken[] {
    return currency === "USD" ? this.#forUsd : this.forWei;
  }
}
