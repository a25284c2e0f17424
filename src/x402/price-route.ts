import { type HttpResponse, jsonResponse } from "../http/http-response.ts";
import type { JobKey } from "../job-call.ts";
import type { JobCatalog } from "./job-catalog.ts";
import type { Offer } from "./offer.ts";
import type { OfferBook } from "./offer-book.ts";

export interface PriceRouteOptions {
  readonly catalog: JobCatalog;
  readonly offers: OfferBook;
  /** Absolute URL of a job, as clients are told. */
  readonly resourceOf: (job: JobKey) => string;
}

/** `GET /x402/jobs/{service}/{job}/price`: what a job costs, for anyone. */
export function createPriceRoute({ catalog, offers, resourceOf }: PriceRouteOptions) {
  return async (job: JobKey): Promise<HttpResponse> => {
    const { serviceId, jobIndex, price } = await catalog.find(job);
    return jsonResponse(
      200,
      {
        service_id: serviceId,
        job_index: jobIndex,
        price_wei: price.priceWei.toString(),
        settlement_options: offers.current(job).map((offer) => settlementOption(offer, resourceOf(job))),
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
