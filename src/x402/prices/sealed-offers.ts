import { equalInConstantTime } from "../../core/constant-time.ts";
import { formatOffer, type Offer, parseOffer } from "../wire/offer.ts";

/** Field of an offer's `extra` that has its seal. */
const SEALED_OFFER = "sealedOffer";

/** Makes a seal that only holders of the store's secret can make. */
export interface Seals {
  seal(text: string): string;
}

/**
 * Offers that are good for one request. Such an offer is sealed with the store's secret and travels with the client, so
 * that jobgate keeps nothing of a request that nobody may ever pay for, and each replica recognises it.
 */
export class SealedOffers {
  readonly #seals: Seals;

  constructor(seals: Seals) {
    this.#seals = seals;
  }

  /** @param request hash of the request that the offer is for */
  seal(offer: Offer, request: string): Offer {
    const text = Buffer.from(formatOffer(offer)).toString("base64url");
    return { ...offer, extra: { ...offer.extra, [SEALED_OFFER]: `${text}.${this.#sealOf(text, request)}` } };
  }

  /**
   * Returns the offer in the `extra` of a payment.
   * @returns undefined for an offer that was not made here, or was made for another request; "none" if there is none
   */
  open(extra: Readonly<Record<string, unknown>> | undefined, request: string): Offer | "none" | undefined {
    const sealed = extra?.[SEALED_OFFER];
    if (sealed === undefined) return "none";
    if (typeof sealed !== "string") return undefined;
    const [text = "", seal = "", ...more] = sealed.split(".");
    if (more.length > 0 || !equalInConstantTime(seal, this.#sealOf(text, request))) return undefined;
    const offer = parseOffer(Buffer.from(text, "base64url").toString());
    return { ...offer, extra: { ...offer.extra, [SEALED_OFFER]: sealed } };
  }

  #sealOf(text: string, request: string): string {
    return this.#seals.seal(`offer for a request\n${request}\n${text}`);
  }
}
