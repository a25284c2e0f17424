import type { WebhookAuth } from "../../config/config.ts";
import type { HttpRequest } from "../../http/http-request.ts";
import { hasApiKey } from "./api-key.ts";
import { hasBearerToken } from "./bearer.ts";
import { hasHmacSignature } from "./hmac-sha256.ts";

/** Whether the sender proved that it may call the endpoint. Nothing of why not is told apart. */
export function isAuthentic(request: HttpRequest, body: Uint8Array, auth: WebhookAuth): boolean {
  switch (auth.mode) {
    case "none":
      return true;
    case "bearer":
      return hasBearerToken(request, auth.secret);
    case "api-key":
      return hasApiKey(request, auth.header, auth.secret);
    case "hmac-sha256":
      return hasHmacSignature(request, body, auth.secret);
  }
}
