import { z } from "zod";
import { type Checked, type Complete, required } from "./check-shape.ts";
import {
  headerName,
  headerSecret,
  integer,
  ipRange,
  label,
  maxBodyBytes,
  oneOf,
  queryParameter,
  tcpAddress,
  text,
  u64,
  webhookPath,
  wholeSeconds,
} from "./value-types.ts";

interface AuthModeTraits {
  /** Form of the secret: any text, one that a header or a path segment can hold, or a Standard Webhooks key. */
  readonly secretFormat: "none" | "text" | "header" | "segment" | "key";
  /** Requests carry the time at which they were signed. */
  readonly isTimed: boolean;
  /** The sender gives each delivery an id, which is the same when it is sent again. */
  readonly hasDeliveryId: boolean;
}

/** Ways for senders to prove who they are, by the value of `auth`. */
export const WEBHOOK_AUTH_MODES = {
  none: { secretFormat: "none", isTimed: false, hasDeliveryId: false },
  bearer: { secretFormat: "header", isTimed: false, hasDeliveryId: false },
  "hmac-sha256": { secretFormat: "text", isTimed: false, hasDeliveryId: false },
  "api-key": { secretFormat: "header", isTimed: false, hasDeliveryId: false },
  "standard-webhooks": { secretFormat: "key", isTimed: true, hasDeliveryId: true },
  svix: { secretFormat: "key", isTimed: true, hasDeliveryId: true },
  github: { secretFormat: "text", isTimed: false, hasDeliveryId: true },
  stripe: { secretFormat: "text", isTimed: true, hasDeliveryId: true },
  slack: { secretFormat: "text", isTimed: true, hasDeliveryId: true },
  shopify: { secretFormat: "text", isTimed: false, hasDeliveryId: true },
  "url-token": { secretFormat: "segment", isTimed: false, hasDeliveryId: false },
} as const satisfies Record<string, AuthModeTraits>;

export type WebhookAuthMode = keyof typeof WEBHOOK_AUTH_MODES;

const AUTH_MODES = Object.keys(WEBHOOK_AUTH_MODES) as [WebhookAuthMode, ...WebhookAuthMode[]];
const SECRET = "the secret, or env:NAME";

export const DEFAULT_TOLERANCE_SECS = 300;
export const DEFAULT_WINDOW_MS = 86_400_000;
/** Meta's name for it, which other senders use too. */
const DEFAULT_TOKEN_PARAMETER = "hub.verify_token";

const namedSecret = z.object({
  /** For logs. */
  name: label(),
  secret: text(SECRET),
});

const dedupe = z.object({
  /** Header with the delivery's id, in lower case, or `body`. */
  header: headerName().optional(),
  /** Time for which a delivery is remembered. */
  windowMs: wholeSeconds().default(DEFAULT_WINDOW_MS),
});

const challenge = z.object({
  /** Query parameter that the answer repeats. */
  parameter: queryParameter(),
  method: oneOf(["GET", "POST"]).default("GET"),
  /** Query parameter that must hold `token`. */
  tokenParameter: queryParameter().optional(),
  token: headerSecret().optional(),
});

const endpoint = z.object({
  path: webhookPath(),
  jobId: u64(),
  auth: oneOf(AUTH_MODES).default("none"),
  secret: text(SECRET).optional(),
  secrets: z
    .array(z.union([text(SECRET), namedSecret]).describe('a secret, or a table { name = "…", secret = "…" }'))
    .describe("an array of secrets")
    .optional(),
  /** Lower case. */
  apiKeyHeader: headerName().prefault("X-API-Key"),
  /** Longest distance between now and the time of signing, in either direction. */
  toleranceSecs: integer(1, 86_400).optional(),
  dedupe: z
    .union([z.literal(false), dedupe])
    .describe('a table such as { header = "X-Delivery-Id" }, or false')
    .optional(),
  challenge: challenge.optional(),
  /** Limit on authentic requests. */
  rateLimitPerSecond: integer(1, 1_000_000).optional(),
  /** Addresses that may send; absent: all. */
  allowCidrs: z.array(ipRange()).describe("an array of address ranges").optional(),
  name: label().optional(),
});

/** The `[webhooks]` table. rules/webhooks.ts checks its keys against each other. */
export const webhooksSchema = z.object({
  bindAddress: tcpAddress().prefault("0.0.0.0:9090"),
  maxBodyBytes: maxBodyBytes(),
  /** Proxies whose `X-Forwarded-For` counts. Default: none. */
  trustedProxies: z.array(ipRange()).describe("an array of address ranges").optional(),
  endpoints: z.array(endpoint).describe("an array of tables, one for each path").default([]),
});

export type WebhooksTable = Checked<z.output<typeof webhooksSchema>>;
export type EndpointTable = Checked<z.output<typeof endpoint>>;

export type WebhooksConfig = Complete<ReturnType<typeof toWebhooksConfig>>;

type EndpointOutput = Complete<z.output<typeof endpoint>>;
type ChallengeOutput = Complete<z.output<typeof challenge>>;

export type WebhookEndpoint = Complete<ReturnType<typeof toEndpoint>>;

/** Proof that a sender has to give. Any of the `secrets` is enough; the first is the current one. */
export type WebhookAuth =
  | { readonly mode: "none" }
  | {
      readonly mode: "bearer" | "hmac-sha256" | "github" | "shopify" | "url-token";
      readonly secrets: readonly WebhookSecret[];
    }
  | {
      readonly mode: "api-key";
      readonly secrets: readonly WebhookSecret[];
      /** Lower case. */
      readonly header: string;
    }
  | {
      readonly mode: "standard-webhooks" | "svix" | "stripe" | "slack";
      readonly secrets: readonly WebhookSecret[];
      /** Longest distance between now and the time of signing, in either direction. */
      readonly toleranceSecs: number;
    };

export type WebhookSecret = Complete<z.output<typeof namedSecret>>;

/** Identity of a repeated delivery: the sender's delivery id, a header (in lower case), or the body. */
export type WebhookDedupe = { readonly windowMs: number } & (
  | { readonly by: "id" }
  | { readonly by: "header"; readonly header: string }
  | { readonly by: "body" }
);

/** Handshake: a query parameter that the sender wants back before it sends anything else. */
export interface WebhookChallenge {
  readonly parameter: string;
  readonly method: "GET" | "POST";
  /** Another query parameter and the value that it must have. */
  readonly verify?: { readonly parameter: string; readonly token: string };
}

/** Completes a table without mistakes. */
export function toWebhooksConfig(webhooks: Complete<z.output<typeof webhooksSchema>>) {
  return { ...webhooks, endpoints: webhooks.endpoints.map(toEndpoint) };
}

function toEndpoint(table: EndpointOutput) {
  const { auth, secret, secrets, apiKeyHeader, toleranceSecs, dedupe, challenge, ...endpoint } = table;
  const repeats = toDedupe(table);
  return {
    ...endpoint,
    auth: toAuth(table),
    /** Absent: every request starts a job. */
    ...(repeats && { dedupe: repeats }),
    ...(challenge && { challenge: toChallenge(challenge) }),
  };
}

function toAuth(endpoint: EndpointOutput): WebhookAuth {
  const { auth: mode, toleranceSecs = DEFAULT_TOLERANCE_SECS } = endpoint;
  switch (mode) {
    case "none":
      return { mode };
    case "api-key":
      return { mode, secrets: toSecrets(endpoint), header: endpoint.apiKeyHeader };
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

function toSecrets({ secret, secrets }: EndpointOutput): WebhookSecret[] {
  if (secrets === undefined) return [{ name: "secret", secret: required(secret) }];
  return secrets.map((item, i) =>
    typeof item === "string" ? { name: `secrets[${i}]`, secret: item } : item,
  );
}

function toDedupe({ auth, dedupe }: EndpointOutput): WebhookDedupe | undefined {
  if (dedupe === false) return undefined;
  const { header, windowMs } = dedupe ?? { header: undefined, windowMs: DEFAULT_WINDOW_MS };
  if (header === "body") return { by: "body", windowMs };
  if (header !== undefined) return { by: "header", header, windowMs };
  return WEBHOOK_AUTH_MODES[auth].hasDeliveryId ? { by: "id", windowMs } : undefined;
}

function toChallenge({ parameter, method, token, ...table }: ChallengeOutput): WebhookChallenge {
  if (token === undefined) return { parameter, method };
  return {
    parameter,
    method,
    verify: { parameter: table.tokenParameter ?? DEFAULT_TOKEN_PARAMETER, token },
  };
}
