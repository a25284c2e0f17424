import type { Job } from "../config/config.ts";
import { GatewayError } from "../core/errors.ts";
import type { JobKey } from "../core/job-call.ts";
import { distinct } from "../core/objects.ts";
import type { HttpRequest } from "../http/request.ts";
import { type HttpResponse, jsonResponse, textResponse } from "../http/response.ts";
import {
  healthHandlers,
  type MethodHandlers,
  type RouteAnswer,
  type RouteHandler,
  type RouteTable,
  refusalAt,
  type TableOwner,
} from "../http/routes.ts";
import { CallRoute } from "./calls/call-route.ts";
import type { ShopAddition } from "./part.ts";
import { answerPrice } from "./prices/price-route.ts";
import type { PaymentProtocol } from "./protocols/protocol.ts";
import { X402Protocol } from "./protocols/x402-protocol.ts";
import { buysOnlyWith, JobRoute } from "./purchase/job-route.ts";
import type { Services } from "./services.ts";
import type { Shop } from "./shop.ts";
import { type JobPath, parseCallPath, parseJobPath } from "./wire/paths.ts";

const X402 = "x402";

/** Routes to a shop. */
export interface ShopRoutes {
  readonly routes: RouteTable;
  readonly unmatched: NonNullable<TableOwner["unmatched"]>;
}

/** Returns the table of every route to a shop: its own paths first, then the paths at which jobs are sold. */
export function shopRoutes(services: Services, shop: Shop, additions: readonly ShopAddition[]): ShopRoutes {
  const { store, callEvents, stats, clock } = services;
  const { rates } = services.prices;
  const { config, prices, routes: jobRoutes, seller, listing, accesses, checkout } = shop;
  const { acceptedTokens, publicUrl } = config;
  const call = new CallRoute({ ...services, ...shop, calls: store, events: callEvents });
  const fixed = distinct<MethodHandlers>("route", [
    ["/x402/health", healthHandlers(() => textResponse(200, "ok"))],
    ["/x402/stats", { GET: () => jsonResponse(200, { status: "ok", counters: stats.counters() }) }],
    ...additions.flatMap((addition) => [...(addition.routes?.(shop) ?? [])]),
  ]);
  const x402 = additions.reduce<PaymentProtocol>(
    (protocol, addition) => addition.protocol?.(protocol) ?? protocol,
    new X402Protocol({ ...shop, methods: services.methods }),
  );
  const routeThrough = (protocol: PaymentProtocol) =>
    new JobRoute({ ...services, ...shop, protocol, publicUrl });
  const protocols = distinct<PaymentProtocol>("protocol", [
    [X402, x402],
    ...additions.flatMap((addition) => Object.entries(addition.protocols ?? {})),
  ]);
  const jobs = new Map([...protocols].map(([name, protocol]) => [name, routeThrough(protocol)]));
  const shared = routeThrough(x402);
  const belowJobs = distinct<(job: JobKey) => MethodHandlers>(
    "route below a job",
    additions.flatMap((addition) => [...(addition.belowJobs?.(shop, x402) ?? [])]),
  );

  return { routes: (path) => ownRoute(path) ?? soldAt(path), unmatched };

  function ownRoute(path: string): MethodHandlers | undefined {
    const jobPath = parseJobPath(path);
    const handlers = jobPath && jobRoute(jobPath);
    if (handlers !== undefined) return handlers;
    const callPath = parseCallPath(path);
    if (callPath === undefined) return fixed.get(path);
    return {
      route: `/x402/calls/{call}${callPath.tail}`,
      GET: (request) => call.answer(request, callPath),
    };
  }

  /** Returns the jobs that are sold at a path, with the protocols of x402's own paths. */
  function soldAt(path: string): MethodHandlers | undefined {
    const found = jobRoutes.find(path);
    const first = found?.get("HEAD");
    if (found === undefined || first === undefined) return undefined;
    const buys = [...found.keys()].filter((method) => method !== "HEAD").join(", ");
    const handlers: Record<string, RouteHandler> = {};
    for (const [method, { entry }] of found)
      handlers[method] = (request) => {
        if (isUpgrade(request)) throw refusalAt(sold, "upgrade_not_supported", NO_UPGRADE);
        if ("answer" in entry) {
          checkout.requireOpenUnpaid(entry);
          return entry.answer(request);
        }
        const sell = () =>
          method === "HEAD" ? shared.show(request, entry.job, buys) : shared.answer(request, entry.job);
        return accesses.length === 0 ? sell() : letIn(request, entry.job, sell);
      };
    const shown = jobRoutes.shownByGet(path);
    if (shown !== undefined)
      handlers.GET = (request) => {
        if (isUpgrade(request)) throw refusalAt(sold, "upgrade_not_supported", NO_UPGRADE);
        if (!x402.carriesPayment(request)) return shared.show(request, shown, buys);
        // The payment may have bought a job here before a reload.
        return shared.refusing(request, shown, () => shared.answerEarlier(request, buysOnlyWith(buys)));
      };
    const sold: MethodHandlers = {
      ...handlers,
      route: first.route.path,
      yields: true,
      refusalDetails: (code, request) => shared.refusalDetails(code, request),
      other: (request, refusal) => shared.answerEarlier(request, refusal),
    };
    return sold;
  }

  /** Answers a request that has access without a payment. Sells the job to any other request. */
  function letIn(request: HttpRequest, job: Job, sell: () => Promise<RouteAnswer>): Promise<RouteAnswer> {
    if (!listing.has(job)) return sell();
    const pays = x402.carriesPayment(request);
    return shared.refusing(request, job, async () => {
      try {
        if (!pays) checkout.requireOpenUnpaid({ job, runner: job.runner });
        for (const access of accesses) {
          const answer = await access.answer(request, job, pays);
          if (answer !== undefined) return answer;
        }
      } catch (error) {
        if (pays && error instanceof GatewayError) return shared.answerEarlier(request, error);
        throw error;
      }
      return sell();
    });
  }

  /** A payment that is already known gets its first outcome, even if its route has left the configuration. */
  function unmatched(request: HttpRequest): ReturnType<ShopRoutes["unmatched"]> {
    if (!x402.carriesPayment(request)) return undefined;
    return (_, refusal) => shared.answerEarlier(request, refusal);
  }

  function showPrice(request: HttpRequest, job: JobPath): Promise<HttpResponse> {
    jobRoutes.requireNoQuery(request);
    return answerPrice(job, { prices, tokens: acceptedTokens, rates, urls: seller.urls, clock });
  }

  function jobRoute(jobPath: JobPath): MethodHandlers | undefined {
    const { protocol, tail } = jobPath;
    const paid = jobs.get(protocol);
    if (paid === undefined) return undefined;
    const route = `/${protocol}/jobs/{service}/{job}${tail}`;
    switch (tail) {
      case "":
        return {
          route,
          GET: (request) => paid.show(request, jobPath),
          POST: (request) => paid.answer(request, jobPath),
          refusalDetails: (code, request) => paid.refusalDetails(code, request),
        };
      case "/price":
        return { route, GET: (request) => showPrice(request, jobPath) };
      default: {
        const handlers = protocol === X402 ? belowJobs.get(tail)?.(jobPath) : undefined;
        return handlers && { route, ...handlers };
      }
    }
  }
}

const NO_UPGRADE = "A job is bought by a plain HTTP request, without Upgrade. Nothing was charged.";

/** Reports whether a request asks for another protocol. A server may ignore the offer of HTTP/2, as clients expect. */
function isUpgrade({ headers }: HttpRequest): boolean {
  return headers.upgrade !== undefined && headers.upgrade.toLowerCase() !== "h2c";
}
