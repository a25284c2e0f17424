import type { JobKey } from "../core/job-call.ts";
import { type HttpResponse, jsonResponse, textResponse } from "../http/response.ts";
import { healthHandlers, type MethodHandlers, type RouteTable } from "../http/routes.ts";
import type { CallRoute } from "./calls/call-route.ts";
import type { DryRunRoute } from "./purchase/dry-run-route.ts";
import { chargedNothing, type JobRoute } from "./purchase/job-route.ts";
import type { X402Stats } from "./stats.ts";
import { type JobPath, parseCallPath, parseJobPath } from "./wire/paths.ts";

/** Returns the table of every route of the gateway. */
export function x402Routes(routes: {
  readonly job: JobRoute;
  readonly dryRun: DryRunRoute;
  readonly price: (job: JobKey) => Promise<HttpResponse>;
  readonly call: CallRoute;
  readonly stats: X402Stats;
}): RouteTable {
  const { job, dryRun, price, call, stats } = routes;
  const fixed = new Map<string, MethodHandlers>([
    ["/x402/health", healthHandlers(() => textResponse(200, "ok"))],
    ["/x402/stats", { GET: () => jsonResponse(200, { status: "ok", counters: stats.counters() }) }],
  ]);

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

  function jobRoute(jobPath: JobPath): MethodHandlers {
    const route = `/x402/jobs/{service}/{job}${jobPath.tail}`;
    switch (jobPath.tail) {
      case "":
        return {
          route,
          POST: (request) => job.answer(request, jobPath),
          refusalDetails: chargedNothing,
        };
      case "/auth-dry-run":
        return { route, POST: (request) => dryRun.answer(request, jobPath) };
      case "/price":
        return { route, GET: () => price(jobPath) };
    }
  }
}
