import { isSameAddress } from "../../core/network-address.ts";
import type { ConfigTables } from "../config.ts";
import { type KeyPath, keyPathText } from "../key-path.ts";
import type { MistakeList } from "../mistakes.ts";
import type { WebhooksTable } from "../webhooks.ts";
import { checkDeliveries } from "./webhook-deliveries.ts";
import { checkSecrets } from "./webhook-secrets.ts";

/** Checks the endpoints of `[webhooks]`: each by itself, and their paths against each other. */
export function checkWebhooks(tables: ConfigTables, mistakes: MistakeList): void {
  const { webhooks } = tables;
  if (webhooks === undefined) return;
  const isBuiltIn = builtInPaths(tables, webhooks);
  const seen = new Map<string, KeyPath>();
  for (const [i, endpoint] of (webhooks.endpoints ?? []).entries()) {
    if (endpoint === undefined) continue;
    const path = ["webhooks", "endpoints", i];
    checkSecrets(endpoint, path, mistakes);
    checkDeliveries(endpoint, path, mistakes);
    if (endpoint.path === undefined) continue;
    if (isBuiltIn(endpoint.path)) {
      mistakes.report(
        [...path, "path"],
        "shadows a path of jobgate itself; expected another, for example under /hooks",
      );
    }
    const first = seen.get(endpoint.path);
    if (first === undefined) seen.set(endpoint.path, [...path, "path"]);
    else mistakes.report([...path, "path"], `is the same as ${keyPathText(first)}; expected each path once`);
  }
  checkTokenPaths(webhooks, mistakes);
}

/** Checks that no path collides with a `url-token` endpoint and its token, which is the segment after its path. */
function checkTokenPaths({ endpoints = [] }: WebhooksTable, mistakes: MistakeList): void {
  const tokenPaths = endpoints.flatMap((endpoint, i) =>
    endpoint?.auth === "url-token" && endpoint.path !== undefined ? [[endpoint.path, i] as const] : [],
  );
  for (const [i, endpoint] of endpoints.entries()) {
    const parent = endpoint?.path?.slice(0, endpoint.path.lastIndexOf("/"));
    const owner = tokenPaths.find(([path]) => path === parent);
    if (owner === undefined) continue;
    mistakes.report(
      ["webhooks", "endpoints", i, "path"],
      `is where the token of ${keyPathText(["webhooks", "endpoints", owner[1]])} is; expected a path that is not directly below that one`,
    );
  }
}

/** Matches the paths that another listener answers on the same socket, or could after a change of addresses. */
function builtInPaths(tables: ConfigTables, webhooks: WebhooksTable): (path: string) => boolean {
  const shared =
    webhooks.bindAddress !== undefined &&
    tables.operator?.bindAddress !== undefined &&
    isSameAddress(webhooks.bindAddress, tables.operator.bindAddress);
  return (path) =>
    path === "/webhooks/health" ||
    path === "/x402" ||
    path.startsWith("/x402/") ||
    (shared &&
      (["/", "/healthz", "/readyz", "/metrics", "/page"].includes(path) ||
        path.startsWith("/page/") ||
        path.startsWith("/jobgate.")));
}
