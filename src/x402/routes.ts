import type { CallbackKeys } from "../core/callback-keys.ts";
import type { HttpRequest } from "../http/request.ts";
import { type HttpResponse, jsonResponse, textResponse } from "../http/response.ts";
import { healthHandlers, type MethodHandlers, type RouteTable } from "../http/routes.ts";
import { CallRoute } from "./calls/call-route.ts";
import { PayerCallsRoute } from "./calls/payer-calls-route.ts";
import { CatalogueRoutes } from "./catalogue/catalogue-routes.ts";
import type { McpRoute } from "./doors/mcp/mcp-route.ts";
import { SHOP_FILES } from "./pages/shop-pages.ts";
import { answerPrice } from "./prices/price-route.ts";
import type { DryRunRoute } from "./purchase/dry-run-route.ts";
import type { JobRoute } from "./purchase/job-route.ts";
import type { Services } from "./services.ts";
import type { Shop } from "./shop.ts";
import type { SignIn } from "./sign-in/sign-in.ts";
import { type JobPath, parseCallPath, parseJobPath, requireNoQuery } from "./wire/paths.ts";

/** Returns the table of every route to a shop. */
export function x402Routes(
  { store, tokens, limits, callEvents, stats, prices: { rates }, clock }: Services,
  { config, prices, listing, seller, receipts }: Shop,
  ways: {
    readonly job: JobRoute;
    /** Absent: `/mpp` does not exist. */
    readonly mppJob: JobRoute | undefined;
    /** Absent: `/mcp` does not exist. */
    readonly mcp: McpRoute | undefined;
    readonly dryRun: DryRunRoute;
    readonly signIn: SignIn;
    readonly callbackKeys: Pick<CallbackKeys, "published"> | undefined;
  },
): RouteTable {
  const { job, mppJob, mcp, dryRun, signIn, callbackKeys } = ways;
  const { acceptedTokens, publicUrl } = config;
  const ofCalls = { calls: store, tokens, signIn, limits };
  const call = new CallRoute({ ...ofCalls, events: callEvents, receipts });
  const payerCalls = new PayerCallsRoute({ ...ofCalls, payments: store, publicUrl });
  const fixed = new Map<string, MethodHandlers>([
    ["/x402/health", healthHandlers(() => textResponse(200, "ok"))],
    ["/x402/stats", { GET: () => jsonResponse(200, { status: "ok", counters: stats.counters() }) }],
    ...SHOP_FILES,
    ["/x402/calls", { GET: (request) => payerCalls.answer(request) }],
    ...(mcp ? [["/mcp", mcp.handlers] as const] : []),
    ...new CatalogueRoutes({ listing, seller }).all,
    ...(receipts ? [receipts.didRoute] : []),
    ...(callbackKeys ? [callbackKeysRoute(callbackKeys)] : []),
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

  function showPrice(request: HttpRequest, job: JobPath): Promise<HttpResponse> {
    requireNoQuery(request);
    return answerPrice(job, { prices, tokens: acceptedTokens, rates, publicUrl, clock });
  }

  function jobRoute(jobPath: JobPath): MethodHandlers | undefined {
    const { protocol, tail } = jobPath;
    const paid = protocol === "x402" ? job : mppJob;
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
        return protocol === "x402"
          ? { route, POST: (request) => dryRun.answer(request, jobPath) }
          : undefined;
      case "/price":
        return { route, GET: (request) => showPrice(request, jobPath) };
    }
  }
}

/** Document with the public keys of callbacks, which may be kept for a few minutes. */
function callbackKeysRoute(
  keys: Pick<CallbackKeys, "published">,
): readonly [path: string, handlers: MethodHandlers] {
  const headers = { "content-type": "application/json", "cache-control": "public, max-age=300" };
  const answer = () => ({ status: 200, headers, body: keys.published });
  return ["/.well-known/jobgate-keys.json", { GET: answer, HEAD: answer }];
}
