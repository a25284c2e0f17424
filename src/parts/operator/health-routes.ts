import { type HttpResponse, jsonResponse, textResponse } from "../../http/response.ts";
import { healthHandlers, type MethodHandlers } from "../../http/routes.ts";
import type { StoreStatus } from "../../store/store.ts";

/**
 * `/healthz` answers 200 while the process runs. `/readyz` answers 200 while it can take jobs, and 503 with the reason
 * while its store is not writable or once it is stopping. A full queue is ready: runners still empty it.
 */
export function healthRoutes(
  status: () => StoreStatus,
  isStopping: () => boolean,
): ReadonlyMap<string, MethodHandlers> {
  const readiness = () => (isStopping() ? notReady("jobgate is shutting down") : storeReadiness(status()));
  return new Map([
    ["/healthz", healthHandlers(() => textResponse(200, "ok"))],
    ["/readyz", healthHandlers(readiness)],
  ]);
}

function storeReadiness({ writable, full, reason }: StoreStatus): HttpResponse {
  if (writable) return jsonResponse(200, { ready: true, queue_full: full });
  return notReady(reason ?? "the store is not writable");
}

function notReady(reason: string): HttpResponse {
  return jsonResponse(503, { ready: false, reason });
}
