import { jsonResponse, textResponse } from "../http/http-response.ts";
import type { MethodHandlers, RouteTable } from "../http/routes.ts";
import type { StoreStatus } from "../store/store.ts";

/**
 * `/healthz`: the process runs. `/readyz`: it can take jobs; 503 with the reason when its store is not writable.
 * A full queue is ready all the same: runners still empty it.
 */
export function healthRoutes(status: () => StoreStatus): RouteTable {
  const routes = new Map<string, MethodHandlers>([
    ["/healthz", { GET: () => textResponse(200, "ok") }],
    ["/readyz", { GET: () => readiness(status()) }],
  ]);
  return (path) => routes.get(path);
}

function readiness({ writable, full, reason }: StoreStatus) {
  if (writable) return jsonResponse(200, { ready: true, queue_full: full });
  return jsonResponse(503, { ready: false, reason: reason ?? "the store is not writable" });
}
