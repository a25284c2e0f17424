import { ConnectError } from "@connectrpc/connect";
import type { Registry } from "prom-client";
import type { MethodHandlers, RouteTable } from "../http/routes.ts";
import { checkAccess, refusalResponse } from "./access.ts";

/** `/metrics` for Prometheus; who may read it is as for the API. */
export function metricsRoutes(metrics: Registry, token: string | undefined): RouteTable {
  const handlers: MethodHandlers = {
    async GET(request) {
      try {
        checkAccess(request, token);
      } catch (error) {
        return refusalResponse(ConnectError.from(error));
      }
      const body = await metrics.metrics();
      return {
        status: 200,
        headers: { "content-type": metrics.contentType, "cache-control": "no-store" },
        body,
      };
    },
  };
  return (path) => (path === "/metrics" ? handlers : undefined);
}
