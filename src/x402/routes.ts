import { distinct } from "../core/objects.ts";
import type { HttpRequest } from "../http/request.ts";
import { type HttpResponse, jsonResponse, textResponse } from "../http/response.ts";
import { healthHandlers, type MethodHandlers, type RouteTable } from "../http/routes.ts";
import { CallRoute } from "./calls/call-route.ts";
import type { Door } from "./doors/door.ts";
import { X402Door } from "./doors/x402-door.ts";
import type { ShopAddition } from "./part.ts";
import { answerPrice } from "./prices/price-route.ts";
import { DryRunRoute } from "./purchase/dry-run-route.ts";
import { JobRoute } from "./purchase/job-route.ts";
import type { Services } from "./services.ts";
import type { Shop } from "./shop.ts";
import { type JobPath, parseCallPath, parseJobPath, requireNoQuery } from "./wire/paths.ts";

const X402 = "x402";

/** Returns the table of every route to a shop. */
export function shopRoutes(services: Services, shop: Shop, additions: readonly ShopAddition[]): RouteTable {
  const { store, callEvents, stats, clock } = services;
  const { rates } = services.prices;
  const { config, prices } = shop;
  const { acceptedTokens, publicUrl, maxBodyBytes } = config;
  const call = new CallRoute({ ...services, ...shop, calls: store, events: callEvents });
  const fixed = distinct<MethodHandlers>("route", [
    ["/x402/health", healthHandlers(() => textResponse(200, "ok"))],
    ["/x402/stats", { GET: () => jsonResponse(200, { status: "ok", counters: stats.counters() }) }],
    ...additions.flatMap((addition) => [...(addition.routes?.(shop) ?? [])]),
  ]);
  const x402 = additions.reduce<Door>(
    (door, addition) => addition.door?.(door) ?? door,
    new X402Door({ ...shop, methods: services.methods }),
  );
  const routeThrough = (door: Door) => new JobRoute({ ...services, ...shop, door, publicUrl });
  const doors = distinct<Door>("door", [
    [X402, x402],
    ...additions.flatMap((addition) => Object.entries(addition.doors ?? {})),
  ]);
  const jobs = new Map([...doors].map(([name, door]) => [name, routeThrough(door)]));
  const dryRun = new DryRunRoute({ ...services, ...shop, door: x402, maxBodyBytes });

  return (path) => {
    const jobPath = parseJobPath(path);
    if (jobPath !== undefined) return jobRoute(jobPath);
    const callPath = parseCallPath(path);
    if (callPath === undefined) return fixed.get(path);
    return {
      route: `/x402/calls/{call}${callPath.tail}`,
      GET: (request) => call.answer(request, callPath),
    };
  };

  function showPrice(request: HttpRequest, job: JobPath): Promise<HttpResponse> {
    requireNoQuery(request);
    return answerPrice(job, { prices, tokens: acceptedTokens, rates, publicUrl, clock });
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
      case "/auth-dry-run":
        return protocol === X402 ? { route, POST: (request) => dryRun.answer(request, jobPath) } : undefined;
      case "/price":
        return { route, GET: (request) => showPrice(request, jobPath) };
    }
  }
}
