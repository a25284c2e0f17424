import type { Logger } from "pino";
import type { Clock } from "../clock.ts";
import type { X402Config } from "../config/config.ts";
import { jsonResponse, textResponse } from "../http/http-response.ts";
import type { MethodHandlers, RouteTable } from "../http/routes.ts";
import type { JobKey } from "../job-call.ts";
import type { PriceSource } from "../pricing/price-map.ts";
import type { RateBoard } from "../pricing/rates/rate-board.ts";
import type { Store } from "../store/store.ts";
import type { StreamCallEvents } from "./call-events.ts";
import { createCallRoute } from "./call-route.ts";
import type { CallerAuth } from "./caller-auth.ts";
import type { ChainEvidence } from "./chain-evidence.ts";
import { createClientLimits } from "./client-limits.ts";
import { createDryRunRoute } from "./dry-run-route.ts";
import type { Facilitator } from "./facilitator.ts";
import { createJobCatalog } from "./job-catalog.ts";
import { parseCallPath, parseJobPath } from "./job-path.ts";
import { chargedNothing, createJobRoute } from "./job-route.ts";
import { createListPrice } from "./list-price.ts";
import type { OfferBook } from "./offer-book.ts";
import type { OfferTime } from "./offer-time.ts";
import type { PaymentsInHand } from "./payments-in-hand.ts";
import { createPriceRoute } from "./price-route.ts";
import { pricedTokens } from "./priced-tokens.ts";
import { createPurchasing } from "./purchase.ts";
import type { QuoteBook } from "./quote-book.ts";
import { createQuotedPrices } from "./quoted-price.ts";
import { createSales } from "./sales.ts";
import type { Settlement } from "./settlement.ts";
import type { X402Stats } from "./stats.ts";
import type { WaitForResult } from "./wait-for-result.ts";
import { X402Producer } from "./x402-producer.ts";

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
  const { store, quotes, stats, clock } = parts;
  const { maxBodyBytes, acceptedTokens, quoteTtlSecs } = config;
  const catalog = createJobCatalog(config, prices);
  const resourceOf = (job: JobKey) => resourceUrl(config, job);
  const limits = createClientLimits(config.limits);
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
