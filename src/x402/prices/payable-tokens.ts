import { isEvm } from "../../chain/chain-client.ts";
import type { AcceptedToken, JobPolicy } from "../../config/config.ts";
import type { JobPrice } from "./price-source.ts";

/** The accepted tokens by the prices that they can be offered for. */
export class PayableTokens {
  /** Tokens with a rate. */
  readonly forWei: readonly AcceptedToken[];
  readonly #forUsd: readonly AcceptedToken[];
  /** The tokens whose payers can be callers. */
  readonly #ofCallers: PayableTokens;

  constructor(tokens: readonly AcceptedToken[]) {
    this.forWei = tokens.filter(({ rate }) => rate !== undefined);
    this.#forUsd = tokens
      .filter(({ currency }) => currency === "USD")
      .map((token) => ({ ...token, rate: { kind: "fixed", ratePerNativeUnit: "1" } }));
    // A chain that permits callers knows accounts of EVM chains alone.
    const ofCallers = tokens.filter(({ network }) => isEvm(network));
    this.#ofCallers = ofCallers.length === tokens.length ? this : new PayableTokens(ofCallers);
  }

  /**
   * Returns the tokens for a price, always in the same array. For a price in dollars their rate is one token for one
   * dollar: the price is in 10^-18 dollars, so amounts are made as for wei.
   * @param policy of the job; a restricted one is sold in the tokens of callers
   */
  for(price: Pick<JobPrice, "currency">, policy?: Pick<JobPolicy, "restriction">): readonly AcceptedToken[] {
    if (policy?.restriction !== undefined && this.#ofCallers !== this) return this.#ofCallers.for(price);
    return price.currency === "USD" ? this.#forUsd : this.forWei;
  }
}
