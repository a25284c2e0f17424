import { type HttpResponse, jsonResponse, textResponse } from "../../http/response.ts";
import { healthHandlers, type MethodHandlers } from "../../http/routes.ts";
import type { StoreStatus } from "../../store/store.ts";

/**
 * `/healthz` answers 200 while the process runs. `/readyz` answers 200 while it can take jobs, and 503 with the reason
 * while it starts or stops, and while its store is not writable. It also answers 200 while the queue is full, because
 * runners still empty the queue.
 *
 * @param closed returns the reason why not every listener is open; undefined while all listeners are open
 */
export function healthRoutes(
  status: () => StoreStatus,
  closed: () => string | undefined,
): ReadonlyMap<string, MethodHandlers> {
  const readiness = () => {
    const reason = closed();
    return reason === undefined ? storeReadiness(status()) : notReady(reason);
  };
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
