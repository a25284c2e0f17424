import { isSameAddress } from "../../core/network-address.ts";
import type { Checked } from "../check-shape.ts";
import { type KeyPath, keyPathText } from "../mistake.ts";
import type { MistakeList } from "../mistake-list.ts";
import type { CheckedFile } from "../schema.ts";
import { checkDeliveries } from "./webhook-deliveries.ts";
import { checkSecrets } from "./webhook-secrets.ts";
import type { WebhooksTable } from "./webhook-tables.ts";

/** What holds between the keys of `[webhooks]` and its endpoints. */
export function checkWebhooks(file: Checked<CheckedFile>, mistakes: MistakeList): void {
  const { webhooks } = file;
  if (webhooks === undefined) return;
  const isBuiltIn = builtInPaths(file, webhooks);
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
        "shadows a path of jobgate itself; expected another, such as one under /hooks",
      );
    }
    const first = seen.get(endpoint.path);
    if (first === undefined) seen.set(endpoint.path, [...path, "path"]);
    else mistakes.report([...path, "path"], `is the same as ${keyPathText(first)}; expected each path once`);
  }
  checkTokenPaths(webhooks, mistakes);
}

/** The path segment after a `url-token` endpoint's path is its token's. */
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
      `stands where the token of ${keyPathText(["webhooks", "endpoints", owner[1]])} does; expected a path that is not right below that one`,
    );
  }
}

/** Paths that another listener answers on the same socket, or may come to when addresses are changed. */
function builtInPaths(file: Checked<CheckedFile>, webhooks: WebhooksTable): (path: string) => boolean {
  const shared =
    webhooks.bind_address !== undefined &&
    file.operator?.bind_address !== undefined &&
    isSameAddress(webhooks.bind_address, file.operator.bind_address);
  return (path) =>
    path === "/webhooks/health" ||
    path === "/x402" ||
    path.startsWith("/x402/") ||
    (shared &&
      (["/", "/healthz", "/readyz", "/metrics", "/page"].includes(path) ||
        path.startsWith("/page/") ||
        path.startsWith("/jobgate.")));
}
