import type { Facilitators } from "../facilitators/facilitators.ts";
import type { Methods } from "../methods/methods.ts";
import type { ChainEvidence } from "../settlement/chain-evidence.ts";
import { type Offer, schemeOf } from "../wire/offer.ts";
import type { Price } from "./price.ts";
import { priceUnavailable } from "./price-source.ts";

interface Parts {
  readonly methods: Pick<Methods, "find">;
  readonly facilitators: Pick<Facilitators, "extraOf">;
  readonly evidence: Pick<ChainEvidence, "connect">;
}

/** Completes offers with what their transfer methods make for one 402 alone. */
export class FreshOffers {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Returns a price whose offers are complete where they are shown. */
  in(price: Price): Price {
    const { policy, range, isOfBody } = price;
    return {
      ...{ policy, range, ...(isOfBody && { isOfBody }) },
      offers: async (body) => this.#complete(await price.offers(body)),
      match: (payment, body) => price.match(payment, body),
      confirm: (offer) => price.confirm(offer),
    };
  }

  /**
   * Leaves out an offer that no facilitator is known to take. Returns the same array where nothing is to be completed.
   * @throws GatewayError `price_unavailable` when no offer is left
   */
  async #complete(offers: readonly Offer[]): Promise<readonly Offer[]> {
    const { methods } = this.#parts;
    const isFresh = ({ token }: Offer) => methods.find(token.transferMethod)?.fresh !== undefined;
    if (!offers.some(isFresh)) return offers;
    const complete = (await Promise.all(offers.map((offer) => this.#completed(offer)))).flat();
    if (complete.length === 0) throw priceUnavailable("no token can be asked for it now");
    return complete;
  }

  async #completed(offer: Offer): Promise<readonly Offer[]> {
    const { methods, facilitators, evidence } = this.#parts;
    const { token, extra } = offer;
    const fresh = methods.find(token.transferMethod)?.fresh;
    if (fresh === undefined) return [offer];
    const kind = facilitators.extraOf({ x402Version: 2, scheme: schemeOf(offer), network: token.network });
    const fields = kind && (await fresh.make({ kind, connect: () => evidence.connect(token) }));
    return fields === undefined ? [] : [{ ...offer, extra: { ...extra, ...fields } }];
  }
}
