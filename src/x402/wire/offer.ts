import type { Network, PaymentRequirements, PaymentRequirementsV1 } from "@x402/core/types";
import type { AcceptedToken } from "../../config/config.ts";
import { MAX_U64, tokenAmount } from "../../core/amounts.ts";
import type { JobKey } from "../../core/job-call.ts";
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
  /** EIP-712 digest of the signed quote that the price is from; a mapped price has none. */
  readonly quoteDigest?: string;
  readonly token: OfferedToken;
  /** Token units, decimal. */
  readonly amount: string;
  /** How long an offer stays payable, and the longest that a signed payment may live. */
  readonly ttlSecs: number;
}

/** A token, and the rate at which offers in it are made. */
export interface PricedToken extends AcceptedToken {
  /** Decimal string > 0: whole tokens for one native unit. */
  readonly ratePerNativeUnit: string;
}

export interface OfferTerms {
  readonly job: JobKey;
  readonly priceWei: bigint;
  readonly quoteDigest?: string;
  readonly tokens: readonly PricedToken[];
  readonly ttlSecs: number;
}

/**
 * An offer for each token, in the configured order. Not in a token whose amount would round to 0 or not fit u64: the
 * one would give the job away, the other cannot be asked for.
 */
export function makeOffers({ tokens, ...terms }: OfferTerms): Offer[] {
  return tokens.flatMap((token) => {
    const { network, asset, symbol, payTo, transferMethod, eip3009 } = token;
    const amount = tokenAmount(terms.priceWei, token);
    if (amount === 0n || amount > MAX_U64) return [];
    return {
      ...terms,
      amount: amount.toString(),
      token: { network, asset, symbol, payTo, transferMethod, eip3009 },
    };
  });
}

/** An offer as it is written down. */
export function formatOffer(offer: Offer): string {
  const { job, priceWei } = offer;
  return JSON.stringify({
    ...offer,
    priceWei: priceWei.toString(),
    job: { serviceId: job.serviceId.toString(), jobIndex: job.jobIndex },
  });
}

/** An offer that {@link formatOffer} wrote. */
export function parseOffer(text: string): Offer {
  const { job, priceWei, ...rest } = JSON.parse(text);
  return {
    ...rest,
    priceWei: BigInt(priceWei),
    job: { serviceId: BigInt(job.serviceId), jobIndex: job.jobIndex },
  };
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
