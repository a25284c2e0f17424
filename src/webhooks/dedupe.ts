import { hash } from "node:crypto";
import type { WebhookDedupe, WebhookEndpoint } from "../config/config.ts";
import type { HttpRequest } from "../http/request.ts";
import type { Delivery, DeliveryKey } from "../store/contract/intake.ts";
import type { AuthScheme, DeliveryIdSource } from "./auth/auth-scheme.ts";
import { singleHeader } from "./auth/signatures.ts";

/** Returns the keys by which the store recognises a repeated delivery. */
export type DeliveryOf = (request: HttpRequest, body: Uint8Array) => Delivery;

/**
 * Recognises repeats by id, by body or by both, depending on the parts that a replay could change:
 * - A signed ID decides alone, so equal bodies under two signed IDs are two deliveries.
 * - An unsigned id can be replaced or left out by an attacker who captured a request, so a signed body that was seen
 *   before is a repeat under any id.
 * - If nothing is signed, every sender can send anything, so the ID decides, or the body if there is no ID.
 */
export function createDedupe(endpoint: WebhookEndpoint, scheme: AuthScheme): DeliveryOf | undefined {
  const { path, dedupe } = endpoint;
  if (dedupe === undefined) return undefined;
  const source = idSource(dedupe, scheme);
  const keyOf = (kind: "id" | "body", value: string) => sha256(`${path}\0${kind}\0${value}`);

  return (request, body) => {
    const bodyHash = sha256(scheme.deliveryId?.lastingBody?.(body) ?? body);
    const id = source?.find(request, body);
    return { keys: keysOf(id, bodyHash), bodyHash, windowMs: dedupe.windowMs };
  };

  function keysOf(id: string | undefined, bodyHash: string): DeliveryKey[] {
    if (id === undefined) return [{ key: keyOf("body", bodyHash), identifies: true }];
    const byId = { key: keyOf("id", id), identifies: true };
    if (source?.isSigned) return [byId];
    return [byId, { key: keyOf("body", bodyHash), identifies: scheme.signsBody }];
  }
}

function idSource(dedupe: WebhookDedupe, { deliveryId }: AuthScheme): DeliveryIdSource | undefined {
  switch (dedupe.by) {
    case "id":
      return deliveryId;
    case "body":
      return undefined;
    case "header": {
      const { header } = dedupe;
      if (header === deliveryId?.header) return deliveryId;
      return { header, isSigned: false, find: (request) => singleHeader(request, header) };
    }
  }
}

function sha256(value: string | Uint8Array): string {
  return hash("sha256", value, "base64url");
}
