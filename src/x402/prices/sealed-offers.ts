import { equalInConstantTime } from "../../core/constant-time.ts";
import { formatOffer, type Offer, parseOffer } from "../wire/offer.ts";

/** Field of an offer's `extra` that has its seal. */
const SEALED_OFFER = "sealedOffer";

/** Names of the headers that a request's hash covers. A seal keeps them, so a reload does not change what an offer is bound to. */
export interface HashedParts {
  /** Names of the headers that the request is bound with; undefined at a job's ids. */
  readonly boundHeaders: string | undefined;
  /** Names of the headers that the price was made of. */
  readonly headers: readonly string[];
}

/** Makes a seal that only holders of the store's secret can make. */
export interface Seals {
  seal(text: string): string;
}

/**
 * Offers for one request. An offer is sealed with the store's secret and travels with the client, so every replica recognises
 * the offer, and the store keeps nothing of a request that may never be paid.
 */
export class SealedOffers {
  readonly #seals: Seals;

  constructor(seals: Seals) {
    this.#seals = seals;
  }

  /** @param hash that of the parts of the request which the offer is for */
  seal(offer: Offer, { boundHeaders, headers }: HashedParts, hash: string): Offer {
    const parts = JSON.stringify({ boundHeaders, headers, hash });
    const text = Buffer.from(`${parts}\n${formatOffer(offer)}`).toString("base64url");
    return { ...offer, extra: { ...offer.extra, [SEALED_OFFER]: `${text}.${this.#sealOf(text)}` } };
  }

  /**
   * Returns the offer in the `extra` of a payment.
   * @param hashOf hashes parts of the payment's request
   * @returns undefined for an offer that was not made here, or was made for another request; "none" if there is none
   */
  open(
    extra: Readonly<Record<string, unknown>> | undefined,
    hashOf: (parts: HashedParts) => string,
  ): Offer | "none" | undefined {
    const sealed = extra?.[SEALED_OFFER];
    if (sealed === undefined) return "none";
    if (typeof sealed !== "string") return undefined;
    const [text = "", seal = "", ...more] = sealed.split(".");
    // Nothing of the text is read before: its names decide how long the hash takes.
    if (more.length > 0 || !equalInConstantTime(seal, this.#sealOf(text))) return undefined;
    const [parts = "", terms = ""] = Buffer.from(text, "base64url").toString().split("\n", 2);
    const { hash, boundHeaders, headers } = JSON.parse(parts) as HashedParts & { readonly hash: string };
    if (hashOf({ boundHeaders, headers }) !== hash) return undefined;
    const offer = parseOffer(terms);
    return { ...offer, extra: { ...offer.extra, [SEALED_OFFER]: sealed } };
  }

  #sealOf(text: string): string {
    return this.#seals.seal(`offer for one request\n${text}`);
  }
}
