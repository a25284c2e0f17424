import type { Registry } from "prom-client";
import type { Routes } from "../../http/routes.ts";

/** `/metrics` for Prometheus. */
export function metricsRoutes(metrics: Registry): Routes {
  const GET = async () => ({
    status: 200,
    headers: { "content-type": metrics.contentType, "cache-control": "no-store" },
    body: await metrics.metrics(),
  });
  return [["/metrics", { GET }]];
}
