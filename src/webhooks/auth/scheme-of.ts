import type { WebhookEndpoint } from "../../config/config.ts";
import { apiKey } from "./api-key.ts";
import type { AuthScheme } from "./auth-scheme.ts";
import { bearer } from "./bearer.ts";
import { github } from "./github.ts";
import { plainHmac } from "./hmac-sha256.ts";
import { noAuth } from "./none.ts";
import { shopify } from "./shopify.ts";
import { slack } from "./slack.ts";
import { standardWebhooks } from "./standard-webhooks.ts";
import { stripe } from "./stripe.ts";
import { svix } from "./svix.ts";
import { urlToken } from "./url-token.ts";

/** How senders of one endpoint prove who they are. */
export function schemeOf({ auth, path }: WebhookEndpoint): AuthScheme {
  switch (auth.mode) {
    case "none":
      return noAuth();
    case "bearer":
      return bearer(auth.secrets);
    case "api-key":
      return apiKey(auth.secrets, auth.header);
    case "hmac-sha256":
      return plainHmac(auth.secrets);
    case "standard-webhooks":
      return standardWebhooks(auth.secrets, auth.toleranceSecs);
    case "svix":
      return svix(auth.secrets, auth.toleranceSecs);
    case "github":
      return github(auth.secrets);
    case "stripe":
      return stripe(auth.secrets, auth.toleranceSecs);
    case "slack":
      return slack(auth.secrets, auth.toleranceSecs);
    case "shopify":
      return shopify(auth.secrets);
    case "url-token":
      return urlToken(auth.secrets, path);
  }
}
