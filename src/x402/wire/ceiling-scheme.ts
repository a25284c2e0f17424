import type { SchemeNetworkFacilitator } from "@x402/core/types";

/**
 * A scheme of x402 beside `exact`. The amount of its offers is a ceiling, of which a part is charged after the job: what the
 * runner says. One account alone can settle a payment, which the payer signs for.
 */
export interface CeilingScheme {
  /** Name in offers. */
  readonly name: string;
  /** Returns what the `extra` of an offer says of the account that settles its payments. */
  extraFor(settler: string): Readonly<Record<string, string>>;
  /** Reads the account that settles, in the `extra` of an offer, or of a kind that a facilitator supports. */
  settlerIn(extra: Readonly<Record<string, unknown>> | undefined): string | undefined;
  /**
   * Returns what verifies and settles payments in this process.
   * @param signer the SDK's for `exact`, as are the options: users of the API do not have the package with their types
   */
  settledBy(signer: object, options: object): Pick<SchemeNetworkFacilitator, "verify" | "settle">;
}
