import type { AcceptedToken } from "../../config/config.ts";
import { priceText } from "../../core/amounts.ts";
import type { Clock } from "../../core/clock.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import { type Offer, offeredMethod, schemeOf } from "../wire/offer.ts";
import type { JobPath, JobUrls } from "../wire/paths.ts";
import type { PriceBook } from "./price-book.ts";
import type { JobPrice } from "./price-source.ts";
import type { TokenRates } from "./token-rates.ts";

interface Parts {
  readonly prices: PriceBook;
  readonly tokens: readonly AcceptedToken[];
  readonly rates: TokenRates;
  readonly urls: JobUrls;
  readonly clock: Clock;
}

/** `GET /x402/jobs/{service}/{job}/price` and the same for MPP: shows the job's current price to anyone. */
export async function answerPrice(
  { serviceId, jobIndex, protocol }: Omit<JobPath, "tail">,
  parts: Parts,
): Promise<HttpResponse> {
  const price = await parts.prices.findCurrent({ serviceId, jobIndex });
  const offers = await price.offers(new Uint8Array());
  return jsonResponse(
    200,
    {
      service_id: serviceId,
      job_index: jobIndex,
      ...(offers[0] && priceFields({ ...offers[0], range: price.range })),
      settlement_options: offers.map((offer) => ({
        ...settlementOption(offer, parts.urls, protocol),
        ...(offer.currency === undefined && liveRate(offer, parts)),
      })),
    },
    // The age is short, although an offer stays payable for far longer after its price has changed.
    { "cache-control": "public, max-age=5" },
  );
}

/**
 * Returns a price in the form that clients read: `price` in dollars, or otherwise `price_wei`. A price that depends on
 * the request also has its range.
 */
export function priceFields({
  priceWei,
  currency,
  range,
}: Pick<Offer, "priceWei" | "currency"> & { readonly range?: JobPrice["range"] | undefined }) {
  if (currency === undefined) return { price_wei: priceWei.toString() };
  return {
    price: priceText({ unit: "usd", amount: priceWei }),
    price_range: range && { min: priceText(range.from), max: priceText(range.upTo), rule: range.rule },
  };
}

/** Returns an offer as clients read it beside the price. */
export function settlementOption(offer: Offer, urls: JobUrls, protocol: JobPath["protocol"] = "x402") {
  const { job, token, amount } = offer;
  const method = offeredMethod(token);
  return {
    protocol,
    network: token.network,
    asset: token.asset,
    symbol: token.symbol,
    amount,
    pay_to: token.payTo,
    scheme: schemeOf(offer),
    ...(method !== undefined && { transfer_method: method }),
    // The SDK's field, whatever the protocol.
    x402_endpoint: urls.of(job, protocol),
  };
}

/** Returns the rate of an amount and the rate's age, if the rate is live. */
function liveRate({ token: offered }: Offer, { tokens, rates, clock }: Parts) {
  const { network, asset, transferMethod: method } = offered;
  const token = tokens.find(
    (accepted) =>
      accepted.network === network && accepted.asset === asset && accepted.transferMethod === method,
  );
  const rate = token && rates.rateOf(token);
  if (rate?.asOf === undefined) return {};
  const ageMs = Math.max(0, clock() - rate.asOf);
  return { rate_per_native_unit: rate.ratePerNativeUnit, rate_age_secs: Math.floor(ageMs / 1000) };
}
