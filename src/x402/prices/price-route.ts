import type { AcceptedToken } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import type { JobKey } from "../../core/job-call.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import type { RateBoard } from "../../pricing/rates/rate-board.ts";
import type { Offer, OfferedToken } from "../wire/offer.ts";
import type { JobCatalog } from "./job-catalog.ts";
import type { PriceTag } from "./price-tag.ts";

export interface PriceRouteOptions {
  readonly catalog: JobCatalog;
  readonly listPrice: (job: JobKey) => PriceTag;
  readonly tokens: readonly AcceptedToken[];
  readonly rates: RateBoard;
  readonly clock: Clock;
  /** Absolute URL of a job, as clients are told. */
  readonly resourceOf: (job: JobKey) => string;
}

/** `GET /x402/jobs/{service}/{job}/price`: what a job costs, for anyone. */
export function createPriceRoute(options: PriceRouteOptions) {
  const { catalog, listPrice, resourceOf } = options;

  function settlementOption({ token, amount }: Offer, endpoint: string) {
    return {
      protocol: "x402",
      network: token.network,
      asset: token.asset,
      symbol: token.symbol,
      amount,
      pay_to: token.payTo,
      scheme: "exact",
      x402_endpoint: endpoint,
      ...liveRate(token, options),
    };
  }

  return async (job: JobKey): Promise<HttpResponse> => {
    const { serviceId, jobIndex } = await catalog.find(job);
    const offers = await listPrice(job).offers();
    return jsonResponse(
      200,
      {
        service_id: serviceId,
        job_index: jobIndex,
        price_wei: offers[0]?.priceWei.toString(),
        settlement_options: offers.map((offer) => settlementOption(offer, resourceOf(job))),
      },
      // An offer is honoured for far longer than this after it changed.
      { "cache-control": "public, max-age=5" },
    );
  };
}

/** The rate behind an amount and how old it is, where it is a live one. */
function liveRate(
  { network, asset }: OfferedToken,
  { tokens, rates, clock }: Pick<PriceRouteOptions, "tokens" | "rates" | "clock">,
): { rate_per_native_unit?: string; rate_age_secs?: number } {
  const token = tokens.find((accepted) => accepted.network === network && accepted.asset === asset);
  const rate = token && rates.rateOf(token);
  if (rate?.asOf === undefined) return {};
  const ageMs = Math.max(0, clock() - rate.asOf);
  return { rate_per_native_unit: rate.ratePerNativeUnit, rate_age_secs: Math.floor(ageMs / 1000) };
}
