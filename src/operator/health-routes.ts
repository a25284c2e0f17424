import { jsonResponse, textResponse } from "../http/response.ts";
import type { MethodHandlers, RouteTable } from "../http/routes.ts";
import type { StoreStatus } from "../store/store.ts";

export interface HealthRoutesOptions {
  readonly status: () => StoreStatus;
  readonly isStopping: () => boolean;
}

/**
 * `/healthz`: the process runs. `/readyz`: it can take jobs; 503 with the reason when its store is not writable, or
 * when it is about to end. A full queue is ready all the same: runners still empty it.
 */
export function healthRoutes({ status, isStopping }: HealthRoutesOptions): RouteTable {
  const routes = new Map<string, MethodHandlers>([
    ["/healthz", { GET: () => textResponse(200, "ok") }],
    ["/readyz", { GET: () => (isStopping() ? notReady("jobgate is shutting down") : readiness(status())) }],
  ]);
  return (path) => routes.get(path);
}

function readiness({ writable, full, reason }: StoreStatus) {
  if (writable) return jsonResponse(200, { ready: true, queue_full: full });
  return notReady(reason ?? "the store is not writable");
}

function notReady(reason: string) {
  return jsonResponse(503, { ready: false, reason });
}
