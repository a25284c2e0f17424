import { earlierPlace, type MistakeList, type Place } from "../mistakes.ts";
import type { ConfigTables } from "../schema.ts";
import { type EndpointTable, WEBHOOK_AUTH_MODES, type WebhooksTable } from "../webhooks.ts";
import { checkForwardedHeaders } from "./forwarded-headers.ts";
import { ownPathsAt } from "./routes.ts";
import { checkDeliveries } from "./webhook-deliveries.ts";
import { checkSecrets } from "./webhook-secrets.ts";

/** Checks the endpoints of `[webhooks]`: each by itself, and their paths against each other. */
export function checkWebhooks(tables: ConfigTables, mistakes: MistakeList): void {
  const { webhooks } = tables;
  if (webhooks === undefined) return;
  const isOwn = ownPathsAt("webhooks", tables);
  const list = mistakes.at("webhooks", "endpoints");
  const seen = new Map<string, Place>();
  for (const [i, endpoint] of (webhooks.endpoints ?? []).entries()) {
    if (endpoint === undefined) continue;
    const place = list.at(i);
    checkSecrets(endpoint, place);
    checkDeliveries(endpoint, place);
    checkForwardedHeaders(endpoint.forwardHeaders, place.at("forward_headers"), proofHeaders(endpoint));
    if (endpoint.path === undefined) continue;
    if (isOwn(endpoint.path)) {
      place
        .at("path")
        .report(
          `is "${endpoint.path}", which shadows a path of jobgate itself; expected another, for example under /hooks`,
        );
    }
    const first = earlierPlace(seen, endpoint.path, place.at("path"));
    if (first !== undefined) place.at("path").report(`is the same as ${first.text}; expected each path once`);
  }
  checkTokenPaths(webhooks, list);
}

/** Returns the headers that authenticate the sender to an endpoint, in lower case. */
export function proofHeaders({
  auth,
  apiKeyHeader,
}: Pick<EndpointTable, "auth" | "apiKeyHeader">): readonly (string | undefined)[] {
  return [apiKeyHeader?.toLowerCase(), ...((auth && WEBHOOK_AUTH_MODES[auth].proofHeaders) ?? [])];
}

/** Checks that no path collides with a `url-token` endpoint and its token, which is the segment after its path. */
function checkTokenPaths({ endpoints = [] }: WebhooksTable, list: Place): void {
  const tokenPaths = endpoints.flatMap((endpoint, i) =>
    endpoint?.auth === "url-token" && endpoint.path !== undefined ? [[endpoint.path, i] as const] : [],
  );
  for (const [i, endpoint] of endpoints.entries()) {
    const parent = endpoint?.path?.slice(0, endpoint.path.lastIndexOf("/"));
    const owner = tokenPaths.find(([path]) => path === parent);
    if (owner === undefined) continue;
    list
      .at(i, "path")
      .report(
        `is where the token of ${list.at(owner[1]).text} is; expected a path that is not directly below the path of that endpoint`,
      );
  }
}
