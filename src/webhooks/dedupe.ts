import { createHash } from "node:crypto";
import type { WebhookDedupe, WebhookEndpoint } from "../config/config.ts";
import type { HttpRequest } from "../http/request.ts";
import type { Delivery, DeliveryKey } from "../store/contract/intake.ts";
import type { AuthScheme, DeliveryIdSource } from "./auth/auth-scheme.ts";
import { singleHeader } from "./auth/single-header.ts";

/** By what an authentic request is known when it comes again. */
export type DeliveryOf = (request: HttpRequest, body: Uint8Array) => Delivery;

/**
 * Which of id and body decides depends on what a replay could change. An id that the signature covers decides alone:
 * equal bodies under two such ids are two deliveries. An id that it does not cover could be replaced or left out by
 * whoever has captured a request, so a signed body that was seen before is a repeat under any id. Where nothing is
 * signed, who can send at all can send anything: the id decides, and the body where there is none.
 */
export function createDedupe(endpoint: WebhookEndpoint, scheme: AuthScheme): DeliveryOf | undefined {
  const { path, dedupe } = endpoint;
  if (dedupe === undefined) return undefined;
  const source = idSource(dedupe, scheme);
  const keyOf = (kind: "id" | "body", value: string) => sha256(`${path}\0${kind}\0${value}`);
  return (request, body) => {
    const bodyHash = sha256(lastingBody(scheme, body));
    const id = source?.find(request, body);
    return { keys: keys(keyOf, id, bodyHash), bodyHash, windowMs: dedupe.windowMs };
  };

  function keys(
    key: (kind: "id" | "body", value: string) => string,
    id: string | undefined,
    bodyHash: string,
  ): DeliveryKey[] {
    const byBody = (identifies: boolean) => ({ key: key("body", bodyHash), identifies });
    if (id === undefined) return [byBody(true)];
    const byId = { key: key("id", id), identifies: true };
    return source?.isSigned ? [byId] : [byId, byBody(scheme.signsBody)];
  }
}

/** Whatever tells deliveries apart, what the sender changes in the body of a repeat does not. */
function lastingBody({ deliveryId }: AuthScheme, body: Uint8Array): string | Uint8Array {
  return deliveryId?.lastingBody?.(body) ?? body;
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
  return createHash("sha256").update(value).digest("base64url");
}
