import type { TypedDataDomain } from "viem";
import { type Offer, toRequirements } from "../../x402/wire/offer.ts";

/** x402's extension for offers and receipts that the seller signs, here as EIP-712 typed data. */
export const OFFER_RECEIPT = "offer-receipt";

/** Longest time for which an offer's `validUntil` stays the same, so that the offer's signature can be used again. */
const MAX_SLOT_SECS = 60;

export interface OfferPayload {
  readonly version: 1;
  readonly resourceUrl: string;
  readonly scheme: string;
  readonly network: string;
  readonly asset: string;
  readonly payTo: string;
  readonly amount: string;
  /** Unix seconds until which the offer is certainly valid. */
  readonly validUntil: number;
}

interface ReceiptPayload {
  readonly version: 1;
  readonly network: string;
  readonly resourceUrl: string;
  readonly payer: string;
  /** Unix seconds. */
  readonly issuedAt: number;
  /** Hash of the settlement's transaction, or empty. */
  readonly transaction: string;
}

/** Signed typed data as the extension has it. */
export interface Signed<Payload> {
  readonly format: "eip712";
  readonly payload: Payload;
  readonly signature: string;
}

/** The extension in a 402. */
export interface SignedOffers {
  readonly info: { readonly offers: readonly (Signed<OfferPayload> & { readonly acceptIndex: number })[] };
  readonly schema: object;
}

/** The extension in a settlement. */
export interface SignedReceipt {
  readonly info: { readonly receipt: Signed<ReceiptPayload> };
  readonly schema: object;
}

/** The official schemas are longer, and clients send them back in the payment's header. */
export const OFFERS_SCHEMA = schemaOf("offers", "array");
export const RECEIPT_SCHEMA = schemaOf("receipt", "object");

export const OFFER_DOMAIN = domainOf("x402 offer");
export const RECEIPT_DOMAIN = domainOf("x402 receipt");

export const OFFER_TYPES = {
  Offer: [
    { name: "version", type: "uint256" },
    { name: "resourceUrl", type: "string" },
    { name: "scheme", type: "string" },
    { name: "network", type: "string" },
    { name: "asset", type: "string" },
    { name: "payTo", type: "string" },
    { name: "amount", type: "string" },
    { name: "validUntil", type: "uint256" },
  ],
} as const;

export const RECEIPT_TYPES = {
  Receipt: [
    { name: "version", type: "uint256" },
    { name: "network", type: "string" },
    { name: "resourceUrl", type: "string" },
    { name: "payer", type: "string" },
    { name: "issuedAt", type: "uint256" },
    { name: "transaction", type: "string" },
  ],
} as const;

/** Returns an offer as it is signed. Its payload stays the same for a minute, or for a quarter of a shorter lifetime. */
export function offerPayload(offer: Offer, resourceUrl: string, nowMs: number): OfferPayload {
  const { scheme, network, asset, payTo, amount } = toRequirements(offer);
  const validUntil = certainEnd(offer, Math.floor(nowMs / 1000));
  return { version: 1, resourceUrl, scheme, network, asset, payTo, amount, validUntil };
}

function certainEnd({ ttlSecs, endSecs }: Offer, nowSecs: number): number {
  // If the end of the price limits the lifetime, rounding down has shortened the lifetime by less than a second.
  if (endSecs !== undefined && nowSecs + ttlSecs + 1 >= Math.floor(endSecs)) return Math.floor(endSecs);
  const slotSecs = Math.max(1, Math.min(MAX_SLOT_SECS, Math.floor(ttlSecs / 4)));
  return nowSecs - (nowSecs % slotSecs) + ttlSecs;
}

/** The chain is the same for all offers, because an offer's own chain is in its payload. */
function domainOf(name: string) {
  return { name, version: "1", chainId: 1 } as const satisfies TypedDataDomain;
}

function schemaOf(name: string, type: string): object {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    properties: { [name]: { type } },
    required: [name],
  };
}
