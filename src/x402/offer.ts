import type { Network, PaymentRequirements, PaymentRequirementsV1 } from "@x402/core/types";
import type { AcceptedToken } from "../config/config.ts";
import type { JobKey } from "../job-call.ts";
import { tokenAmount } from "../pricing/amount.ts";
import { v1NetworkName } from "./v1-networks.ts";

/** What an offer says of its token. Not the RPC address: offers are stored, and an address may hold a key. */
export type OfferedToken = Pick<
  AcceptedToken,
  "network" | "asset" | "symbol" | "payTo" | "transferMethod" | "eip3009"
>;

/** One way to pay for one run of a job: a token and the exact amount of it. */
export interface Offer {
  readonly job: JobKey;
  readonly priceWei: bigint;
  readonly token: OfferedToken;
  /** Token units, decimal. */
  readonly amount: string;
  /** How long an offer stays payable, and the longest that a signed payment may live. */
  readonly ttlSecs: number;
}

export interface OfferTerms {
  readonly job: JobKey;
  readonly priceWei: bigint;
  readonly tokens: readonly AcceptedToken[];
  readonly ttlSecs: number;
}

/** An offer for each token, in the configured order. */
export function makeOffers({ job, priceWei, tokens, ttlSecs }: OfferTerms): Offer[] {
  return tokens.map((token) => {
    const { network, asset, symbol, payTo, transferMethod, eip3009 } = token;
    return {
      job,
      priceWei,
      ttlSecs,
      amount: tokenAmount(priceWei, token).toString(),
      token: { network, asset, symbol, payTo, transferMethod, eip3009 },
    };
  });
}

/** The offer as a v2 client gets it in a 402, and the facilitator with the payment. */
export function toRequirements({ token, amount, ttlSecs }: Offer): PaymentRequirements {
  return {
    scheme: "exact",
    network: token.network,
    amount,
    asset: token.asset,
    payTo: token.payTo,
    maxTimeoutSeconds: ttlSecs,
    extra: { ...token.eip3009 },
  };
}

/**
 * The offer as a v1 client gets it; undefined when v1 has no name for the network.
 * @param resource absolute URL of the job: v1 clients refuse anything else
 */
export function toRequirementsV1(offer: Offer, resource: string): PaymentRequirementsV1 | undefined {
  const { token, amount, ttlSecs } = offer;
  const network = v1NetworkName(token.network);
  if (network === undefined) return undefined;
  return {
    scheme: "exact",
    // The SDK's type has only CAIP-2; in v1 the name goes here.
    network: network as Network,
    maxAmountRequired: amount,
    resource,
    description: "",
    mimeType: "",
    outputSchema: {},
    payTo: token.payTo,
    maxTimeoutSeconds: ttlSecs,
    asset: token.asset,
    extra: { ...token.eip3009 },
  };
}
