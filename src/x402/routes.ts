import type { Logger } from "pino";
import type { X402Config } from "../config/config.ts";
import type { Clock } from "../core/clock.ts";
import type { JobKey } from "../core/job-call.ts";
import { jsonResponse, textResponse } from "../http/response.ts";
import type { MethodHandlers, RouteTable } from "../http/routes.ts";
import type { PriceSource } from "../pricing/price-map.ts";
import type { RateBoard } from "../pricing/rates/rate-board.ts";
import type { Store } from "../store/store.ts";
import type { CallerAuth } from "./callers/caller-auth.ts";
import { createCallRoute } from "./calls/call-route.ts";
import type { StreamCallEvents } from "./calls/events.ts";
import type { WaitForResult } from "./calls/wait-for-result.ts";
import { createJobCatalog } from "./prices/job-catalog.ts";
import { createListPrice } from "./prices/list-price.ts";
import type { OfferBook } from "./prices/offer-book.ts";
import type { OfferTime } from "./prices/offer-time.ts";
import { createPriceRoute } from "./prices/price-route.ts";
import { pricedTokens } from "./prices/priced-tokens.ts";
import type { QuoteBook } from "./prices/quote-book.ts";
import { createQuotedPrices } from "./prices/quoted-price.ts";
import { createSales } from "./prices/sales.ts";
import { X402Producer } from "./producer.ts";
import type { ClientLimits } from "./purchase/client-limits.ts";
import { createDryRunRoute } from "./purchase/dry-run-route.ts";
import { chargedNothing, createJobRoute } from "./purchase/job-route.ts";
import { createPurchasing } from "./purchase/purchase.ts";
import type { ChainEvidence } from "./settlement/chain-evidence.ts";
import type { Facilitator } from "./settlement/facilitator.ts";
import type { PaymentsInHand } from "./settlement/payments-in-progress.ts";
import type { Settlement } from "./settlement/settlement.ts";
import type { X402Stats } from "./stats.ts";
import { parseCallPath, parseJobPath } from "./wire/paths.ts";

/** What outlives a reload. */
export interface X402Parts {
  readonly store: Store;
  readonly facilitator: Facilitator;
  readonly evidence: ChainEvidence;
  readonly settlement: Settlement;
  readonly callerAuth: CallerAuth;
  readonly offers: OfferBook;
  readonly quotes: QuoteBook;
  readonly rates: RateBoard;
  readonly inHand: PaymentsInHand;
  readonly waitForResult: WaitForResult;
  readonly streamEvents: StreamCallEvents;
  readonly offerTime: OfferTime;
  readonly limits: ClientLimits;
  readonly stats: X402Stats;
  readonly logger: Logger;
  readonly clock: Clock;
}

export interface X402RouteOptions {
  readonly config: X402Config;
  readonly prices: PriceSource;
  /** Whether requests can name a quote of the pricing engine. */
  readonly redeemsQuotes: boolean;
  readonly parts: X402Parts;
}

/** Every route of the gateway, at the prices, tokens and policies of one configuration. */
export function createX402Routes({ config, prices, redeemsQuotes, parts }: X402RouteOptions): RouteTable {
  const { store, quotes, limits, stats, clock } = parts;
  const { maxBodyBytes, acceptedTokens, quoteTtlSecs } = config;
  const catalog = createJobCatalog(config, prices);
  const resourceOf = (job: JobKey) => resourceUrl(config, job);
  const listPrice = createListPrice({
    ...parts,
    prices,
    pricedTokens: () => pricedTokens(acceptedTokens, parts.rates),
    quoteTtlSecs,
  });
  const findSale = createSales({
    catalog,
    listPrice,
    quotedPrices: redeemsQuotes ? createQuotedPrices({ quotes, clock }) : undefined,
  });
  const purchasing = createPurchasing({ ...parts, producer: new X402Producer(), limits, resourceOf });

  const runJob = createJobRoute({
    ...parts,
    findSale,
    purchasing,
    limits,
    maxBodyBytes,
    resourceOf,
  });
  const dryRun = createDryRunRoute({ ...parts, findSale, purchasing, limits, maxBodyBytes });
  const showPrice = createPriceRoute({ ...parts, catalog, listPrice, tokens: acceptedTokens, resourceOf });
  const showCall = createCallRoute({ calls: store, streamEvents: parts.streamEvents });
  const fixed = new Map<string, MethodHandlers>([
    ["/x402/health", { GET: () => textResponse(200, "ok") }],
    ["/x402/stats", { GET: () => jsonResponse(200, { status: "ok", counters: stats.counters() }) }],
  ]);

  return (path) => {
    const job = parseJobPath(path);
    const route = `/x402/jobs/{service}/{job}${job?.tail}`;
    if (job?.tail === "")
      return { route, POST: (request) => runJob(request, job), refusalDetails: chargedNothing };
    if (job?.tail === "/auth-dry-run") return { route, POST: (request) => dryRun(request, job) };
    if (job?.tail === "/price") return { route, GET: () => showPrice(job) };
    const call = parseCallPath(path);
    if (call !== undefined)
      return { route: `/x402/calls/{call}${call.tail}`, GET: (request) => showCall(request, call) };
    return fixed.get(path);
  };
}

/** Absolute URL of a job, as clients are told: never from what a request says. */
export function resourceUrl({ publicUrl }: X402Config, { serviceId, jobIndex }: JobKey): string {
  return `${publicUrl}/x402/jobs/${serviceId}/${jobIndex}`;
}
