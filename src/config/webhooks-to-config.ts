import type {
  WebhookAuth,
  WebhookChallenge,
  WebhookDedupe,
  WebhookEndpoint,
  WebhookSecret,
  WebhooksConfig,
} from "./config.ts";
import { present, required } from "./present.ts";
import type { CheckedFile } from "./schema.ts";
import { WEBHOOK_AUTH_MODES } from "./webhook-auth-modes.ts";
import { DEFAULT_TOLERANCE_SECS, DEFAULT_WINDOW_SECS } from "./webhook-defaults.ts";

type WebhooksTable = NonNullable<CheckedFile["webhooks"]>;
type EndpointTable = WebhooksTable["endpoints"][number];
type ChallengeTable = NonNullable<EndpointTable["challenge"]>;

/** Meta's name for it, which others took over. */
const DEFAULT_TOKEN_PARAMETER = "hub.verify_token";

export function toWebhooks(webhooks: WebhooksTable): WebhooksConfig {
  return {
    bindAddress: webhooks.bind_address,
    maxBodyBytes: webhooks.max_body_bytes,
    trustedProxies: webhooks.trusted_proxies,
    endpoints: webhooks.endpoints.map(
      (endpoint): WebhookEndpoint => ({
        path: endpoint.path,
        jobId: endpoint.job_id,
        auth: toAuth(endpoint),
        ...present("dedupe", toDedupe(endpoint)),
        ...present("challenge", endpoint.challenge && toChallenge(endpoint.challenge)),
        ...present("rateLimitPerSecond", endpoint.rate_limit_per_second),
        ...present("allowCidrs", endpoint.allow_cidrs),
        ...present("name", endpoint.name),
      }),
    ),
  };
}

function toAuth(endpoint: EndpointTable): WebhookAuth {
  const { auth: mode } = endpoint;
  const toleranceSecs = endpoint.tolerance_secs ?? DEFAULT_TOLERANCE_SECS;
  switch (mode) {
    case "none":
      return { mode };
    case "api-key":
      return { mode, secrets: toSecrets(endpoint), header: endpoint.api_key_header };
    case "standard-webhooks":
    case "svix":
    case "stripe":
    case "slack":
      return { mode, secrets: toSecrets(endpoint), toleranceSecs };
    case "bearer":
    case "hmac-sha256":
    case "github":
    case "shopify":
    case "url-token":
      return { mode, secrets: toSecrets(endpoint) };
  }
}

function toSecrets({ secret, secrets }: EndpointTable): WebhookSecret[] {
  if (secrets === undefined) return [{ name: "secret", secret: required(secret) }];
  return secrets.map((item, i) =>
    typeof item === "string" ? { name: `secrets[${i}]`, secret: item } : item,
  );
}

function toDedupe({ auth, dedupe }: EndpointTable): WebhookDedupe | undefined {
  if (dedupe === false) return undefined;
  const windowMs = (dedupe?.window_secs ?? DEFAULT_WINDOW_SECS) * 1000;
  if (dedupe?.header === "body") return { by: "body", windowMs };
  if (dedupe?.header !== undefined) return { by: "header", header: dedupe.header, windowMs };
  return WEBHOOK_AUTH_MODES[auth].hasDeliveryId ? { by: "id", windowMs } : undefined;
}

function toChallenge({ parameter, method, token, token_parameter }: ChallengeTable): WebhookChallenge {
  const asked =
    token === undefined ? undefined : { parameter: token_parameter ?? DEFAULT_TOKEN_PARAMETER, token };
  return { parameter, method, ...present("verify", asked) };
}
