import { type HttpResponse, jsonResponse } from "../http/http-response.ts";
import type { JobKey } from "../job-call.ts";
import type { JobCatalog } from "./job-catalog.ts";
import type { Offer } from "./offer.ts";
import type { PriceTag } from "./price-tag.ts";

export interface PriceRouteOptions {
  readonly catalog: JobCatalog;
  readonly listPrice: (job: JobKey) => PriceTag;
  /** Absolute URL of a job, as clients are told. */
  readonly resourceOf: (job: JobKey) => string;
}

/** `GET /x402/jobs/{service}/{job}/price`: what a job costs, for anyone. */
export function createPriceRoute({ catalog, listPrice, resourceOf }: PriceRouteOptions) {
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
  };
}
