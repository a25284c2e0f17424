import type { AcceptedToken } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import type { JobKey } from "../../core/job-call.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import type { RateBoard } from "../../pricing/rates/rate-board.ts";
import type { Offer } from "../wire/offer.ts";
import { jobUrl } from "../wire/paths.ts";
import type { PriceBook } from "./price-book.ts";

interface Parts {
  readonly prices: PriceBook;
  readonly tokens: readonly AcceptedToken[];
  readonly rates: RateBoard;
  readonly publicUrl: string;
  readonly clock: Clock;
}

/** `GET /x402/jobs/{service}/{job}/price`: shows the job's current price to anyone. */
export async function answerPrice({ serviceId, jobIndex }: JobKey, parts: Parts): Promise<HttpResponse> {
  const price = await parts.prices.findCurrent({ serviceId, jobIndex });
  const offers = await price.offers(new Uint8Array());
  return jsonResponse(
    200,
    {
      service_id: serviceId,
      job_index: jobIndex,
      price_wei: offers[0]?.priceWei.toString(),
      settlement_options: offers.map(({ job, token, amount }) => ({
        protocol: "x402",
        network: token.network,
        asset: token.asset,
        symbol: token.symbol,
        amount,
        pay_to: token.payTo,
        scheme: "exact",
        x402_endpoint: jobUrl(parts.publicUrl, job),
        ...liveRate(token, parts),
      })),
    },
    // Short, because an offer stays payable for far longer after its price has changed.
    { "cache-control": "public, max-age=5" },
  );
}

/** Returns the rate behind an amount, and its age, if it is a live one. */
function liveRate({ network, asset }: Offer["token"], { tokens, rates, clock }: Parts) {
  const token = tokens.find((accepted) => accepted.network === network && accepted.asset === asset);
  const rate = token && rates.rateOf(token);
  if (rate?.asOf === undefined) return {};
  const ageMs = Math.max(0, clock() - rate.asOf);
  return { rate_per_native_unit: rate.ratePerNativeUnit, rate_age_secs: Math.floor(ageMs / 1000) };
}
