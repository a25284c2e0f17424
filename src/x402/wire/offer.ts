import type { Network, PaymentRequirements, PaymentRequirementsV1 } from "@x402/core/types";
import type { AcceptedToken } from "../../config/config.ts";
import { MAX_U64, tokenAmount } from "../../core/amounts.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { JobQuote } from "../../pricing/job-quote.ts";
import type { RateBoard } from "../../pricing/rates/rate-board.ts";
import { v1NetworkName } from "./v1-networks.ts";

/** A way to pay for one run of a job: a token and the exact amount of it. */
export interface Offer {
  readonly job: JobKey;
  readonly priceWei: bigint;
  /** EIP-712 digest of the signed quote that the price comes from; absent for a price from `[job_pricing]`. */
  readonly quoteDigest?: string;
  /** Unix seconds at which that quote ends, and the offer with it. */
  readonly quoteExpiry?: number;
  /** The quote's price is for a run in a trusted execution environment. */
  readonly confidentiality?: "tee";
  /** Holds no RPC address: offers are stored, and such an address may hold a key. */
  readonly token: Pick<
    AcceptedToken,
    "network" | "asset" | "symbol" | "payTo" | "transferMethod" | "eip3009"
  >;
  /** Token units, decimal. */
  readonly amount: string;
  /** Lifetime of the offer, and the longest lifetime of a signed payment. */
  readonly ttlSecs: number;
}

export interface OfferTerms
  extends Pick<Offer, "job" | "priceWei" | "quoteDigest" | "quoteExpiry" | "confidentiality" | "ttlSecs"> {
  readonly tokens: readonly AcceptedToken[];
}

/** `confidentiality` of a quote that requires a trusted execution environment. */
const CONFIDENTIALITY_REQUIRED = 1;

/** Terms of an offer at the price of a quote, which ends when the quote does. `ttlSecs` is 0 for an expired quote. */
export function quoteTerms(
  { digest, expiry, confidentiality }: Pick<JobQuote, "digest" | "expiry" | "confidentiality">,
  at: { readonly nowMs: number; readonly maxTtlSecs: number },
): Pick<Offer, "quoteDigest" | "quoteExpiry" | "confidentiality" | "ttlSecs"> {
  // The signed value may be up to 2^64 - 1; the bound is 285 million years.
  const quoteExpiry = Math.min(Number(expiry), Number.MAX_SAFE_INTEGER / 1000);
  return {
    quoteDigest: digest,
    quoteExpiry,
    ...(confidentiality === CONFIDENTIALITY_REQUIRED ? { confidentiality: "tee" as const } : {}),
    ttlSecs: Math.min(at.maxTtlSecs, secsUntil(quoteExpiry, at.nowMs)),
  };
}

/** Returns the whole seconds until a time in Unix seconds; 0 when it has passed. */
export function secsUntil(endSecs: number, nowMs: number): number {
  return Math.max(0, Math.floor(endSecs - nowMs / 1000));
}

/** Returns the price in token units; undefined while the token has no rate. */
export function amountIn(
  token: AcceptedToken,
  priceWei: bigint,
  rates: Pick<RateBoard, "rateOf">,
): bigint | undefined {
  const { markupBps, decimals } = token;
  const rate = rates.rateOf(token);
  if (rate === undefined) return undefined;
  return tokenAmount(priceWei, { ratePerNativeUnit: rate.ratePerNativeUnit, markupBps, decimals });
}

/** Reports whether a payment can have the amount: 0 would give the job away, and wallets cannot pay more than u64. */
export function isPayable(amount: bigint): boolean {
  return amount > 0n && amount <= MAX_U64;
}

/**
 * Makes an offer in each token, in the configured order. Skips a token that has no rate now, and one in which the
 * amount cannot be paid.
 */
export function makeOffers({ tokens, ...terms }: OfferTerms, rates: Pick<RateBoard, "rateOf">): Offer[] {
  return tokens.flatMap((token) => {
    const { network, asset, symbol, payTo, transferMethod, eip3009 } = token;
    const amount = amountIn(token, terms.priceWei, rates);
    if (amount === undefined || !isPayable(amount)) return [];
    return {
      ...terms,
      amount: amount.toString(),
      token: { network, asset, symbol, payTo, transferMethod, eip3009 },
    };
  });
}

/** Returns the offer with the lifetime that its quote leaves it; undefined once the quote has ended. */
export function atTime(offer: Offer, nowMs: number): Offer | undefined {
  if (offer.quoteExpiry === undefined) return offer;
  const ttlSecs = Math.min(offer.ttlSecs, secsUntil(offer.quoteExpiry, nowMs));
  return ttlSecs > 0 ? { ...offer, ttlSecs } : undefined;
}

/** Returns the offer as the store keeps it. */
export function formatOffer(offer: Offer): string {
  const { job, priceWei } = offer;
  return JSON.stringify({
    ...offer,
    priceWei: priceWei.toString(),
    job: { serviceId: job.serviceId.toString(), jobIndex: job.jobIndex },
  });
}

/** Parses what {@link formatOffer} returned. */
export function parseOffer(text: string): Offer {
  const { job, priceWei, ...rest } = JSON.parse(text);
  return {
    ...rest,
    priceWei: BigInt(priceWei),
    job: { serviceId: BigInt(job.serviceId), jobIndex: job.jobIndex },
  };
}

/** Returns the offer as a v2 client finds it in a 402 and as the facilitator gets it with the payment. */
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
 * Returns the offer as a v1 client finds it in a 402; undefined when v1 has no name for the network.
 * @param resource absolute URL of the job: v1 clients refuse anything else
 */
export function toRequirementsV1(offer: Offer, resource: string): PaymentRequirementsV1 | undefined {
  const network = v1NetworkName(offer.token.network);
  if (network === undefined) return undefined;
  const { amount, ...common } = toRequirements(offer);
  return {
    ...common,
    // The SDK's type allows only CAIP-2, but v1 puts the name here.
    network: network as Network,
    maxAmountRequired: amount,
    resource,
    description: "",
    mimeType: "",
    outputSchema: {},
  };
}
