import type { X402Config } from "../../config/config.ts";
import { parseRoute } from "../../core/route.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { RateLimit } from "../../http/limits.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { RouteAnswer } from "../../http/routes.ts";
import type { FreeRoute } from "../../x402/jobs/job-routes.ts";
import { API, type ApiConfig } from "./config.ts";
import type { PassThrough } from "./pass-through.ts";

interface Parts {
  readonly passThrough: PassThrough;
  readonly rates: RateLimit;
  readonly telemetry: Pick<Telemetry, "count">;
}

/** Returns the free routes of an API. */
export function freeRoutes(
  { name: api, free, freeRate }: ApiConfig,
  { maxBodyBytes }: Pick<X402Config, "maxBodyBytes">,
  { passThrough, rates, telemetry }: Parts,
): FreeRoute[] {
  const answer = (request: HttpRequest): Promise<RouteAnswer> =>
    passThrough.answer(request, {
      admit: () =>
        rates.count(`${api} free ${passThrough.clientOf(request)}`, freeRate, "Too many free requests"),
      readBody: () => request.readBody(maxBodyBytes),
      count: (code) => telemetry.count("jobgate_api_free_requests_total", { api, code }),
    });
  return free.flatMap((text) => {
    const route = parseRoute(text);
    return route === undefined ? [] : { route, runner: { kind: API, name: api }, answer };
  });
}
