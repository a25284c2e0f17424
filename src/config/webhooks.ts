import * as z from "zod";
import { defined } from "../core/objects.ts";
import { type Checked, type Complete, required } from "./check-shape.ts";
import type { EndpointOfPart, EntryClaims } from "./entry-keys.ts";
import { fixed } from "./reload.ts";
import {
  headerSecret,
  integer,
  label,
  maxBodyBytes,
  oneOf,
  secretArray,
  text,
  u64,
  wholeSeconds,
} from "./value-types.ts";
import {
  headerName,
  headerNames,
  ipRange,
  queryParameter,
  tcpAddress,
  webhookPath,
  writtenHeaderName,
} from "./web-types.ts";
import { kind, SHOWN } from "./wrong-value.ts";

interface AuthModeTraits {
  /** Form of the secret: any text, a text that a header or a path segment can hold, or a Standard Webhooks key. */
  readonly secretFormat: "none" | "text" | "header" | "segment" | "key";
  /** True if requests carry the time at which they were signed. */
  readonly isTimed?: true;
  /** True if the sender gives each delivery an ID that a repetition of the delivery also has. */
  readonly hasDeliveryId?: true;
  /** Headers that authenticate the sender, in lower case, except the header of `apiKeyHeader`. */
  readonly proofHeaders?: readonly string[];
}

const TIMED_WITH_ID = { isTimed: true, hasDeliveryId: true } as const;

/** Ways to authenticate senders, by the value of `auth`. */
export const WEBHOOK_AUTH_MODES: Readonly<Record<WebhookAuthMode, AuthModeTraits>> = {
  none: { secretFormat: "none" },
  bearer: { secretFormat: "header", proofHeaders: ["authorization"] },
  "hmac-sha256": {
    secretFormat: "text",
    proofHeaders: ["x-signature-256", "x-hub-signature-256", "x-webhook-signature"],
  },
  "api-key": { secretFormat: "header" },
  "standard-webhooks": { secretFormat: "key", ...TIMED_WITH_ID, proofHeaders: ["webhook-signature"] },
  svix: { secretFormat: "key", ...TIMED_WITH_ID, proofHeaders: ["svix-signature"] },
  github: {
    secretFormat: "text",
    hasDeliveryId: true,
    proofHeaders: ["x-hub-signature-256", "x-hub-signature"],
  },
  stripe: { secretFormat: "text", ...TIMED_WITH_ID, proofHeaders: ["stripe-signature"] },
  slack: { secretFormat: "text", ...TIMED_WITH_ID, proofHeaders: ["x-slack-signature"] },
  shopify: { secretFormat: "text", hasDeliveryId: true, proofHeaders: ["x-shopify-hmac-sha256"] },
  "url-token": { secretFormat: "segment" },
};

export type WebhookAuthMode = WebhookAuth["mode"];

const AUTH_MODES = Object.keys(WEBHOOK_AUTH_MODES) as [WebhookAuthMode, ...WebhookAuthMode[]];
const SECRET = "the secret, env:NAME or file:PATH";

export const DEFAULT_TOLERANCE_SECS = 300;
export const DEFAULT_WINDOW_MS = 86_400_000;
/** Meta's name for the parameter, which other senders also use. */
const DEFAULT_TOKEN_PARAMETER = "hub.verify_token";

const namedSecret = z.object({
  /** Name of the endpoint in logs. */
  name: label(),
  secret: text(SECRET),
});

const dedupe = z.object({
  /** Name of the header that has the delivery's ID, in lower case, or `body`. */
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
  secrets: secretArray(
    z.union([text(SECRET), namedSecret]).describe('a secret, or a table { name = "…", secret = "…" }'),
    "secrets",
  ).optional(),
  apiKeyHeader: writtenHeaderName().default("X-API-Key"),
  /** Longest time between now and the time of signing, in either direction. */
  toleranceSecs: integer(1, 86_400).optional(),
  dedupe: z
    .union([kind(z.literal(false), "false", SHOWN), dedupe])
    .describe('a table such as { header = "X-Delivery-Id" }, or false')
    .optional(),
  challenge: challenge.optional(),
  /** Limit on authentic requests. */
  rateLimitPerSecond: integer(1, 1_000_000).optional(),
  /** Addresses that may send; undefined if all may. */
  allowCidrs: z.array(ipRange()).min(1).describe("an array of at least one address range").optional(),
  forwardHeaders: headerNames().optional(),
  name: label().optional(),
});

/** The `[webhooks]` table. rules/webhooks.ts checks its keys against each other. */
export const webhooksSchema = z.object({
  bindAddress: fixed(tcpAddress().prefault("0.0.0.0:9090")),
  maxBodyBytes: maxBodyBytes(),
  /** Proxies whose `X-Forwarded-For` is trusted. Default: none. */
  trustedProxies: z.array(ipRange()).describe("an array of address ranges").optional(),
  endpoints: z.array(endpoint).describe("an array of tables, one for each path").default([]),
});

export type WebhooksTable = Checked<z.output<typeof webhooksSchema>>;
export type EndpointTable = Checked<z.output<typeof endpoint>>;

export type WebhooksConfig = Complete<ReturnType<typeof toWebhooksConfig>>;

type EndpointOutput = Complete<z.output<typeof endpoint>>;
type ChallengeOutput = Complete<z.output<typeof challenge>>;

export type WebhookEndpoint = Complete<ReturnType<typeof toEndpoint>>;

/** Authentication that a sender must pass. Each of the `secrets` is accepted; the first is the current secret. */
export type WebhookAuth =
  | { readonly mode: "none" }
  | {
      readonly mode: "bearer" | "hmac-sha256" | "github" | "shopify" | "url-token";
      readonly secrets: readonly WebhookSecret[];
    }
  | {
      readonly mode: "api-key";
      readonly secrets: readonly WebhookSecret[];
      /** Name of the header, in the letter case that `sign-webhook` prints. */
      readonly header: string;
    }
  | {
      readonly mode: "standard-webhooks" | "svix" | "stripe" | "slack";
      readonly secrets: readonly WebhookSecret[];
      /** Longest time between now and the time of signing, in either direction. */
      readonly toleranceSecs: number;
    };

export type WebhookSecret = Complete<z.output<typeof namedSecret>>;

/** Identity of a repeated delivery: the sender's delivery id, a header (in lower case), or the body. */
export type WebhookDedupe = { readonly windowMs: number } & (
  | { readonly by: "id" }
  | { readonly by: "header"; readonly header: string }
  | { readonly by: "body" }
);

/** Handshake: a query parameter that the sender expects back before it sends webhooks. */
export interface WebhookChallenge {
  readonly parameter: string;
  readonly method: "GET" | "POST";
  /** Another query parameter, with its required value. */
  readonly verify?: { readonly parameter: string; readonly token: string };
}

/** Fills the values that follow from other keys. */
export function fillEndpoint({ toleranceSecs, dedupe, ...endpoint }: EndpointOutput): EndpointOutput {
  const { isTimed, hasDeliveryId } = WEBHOOK_AUTH_MODES[endpoint.auth];
  return defined({
    ...endpoint,
    toleranceSecs: isTimed ? (toleranceSecs ?? DEFAULT_TOLERANCE_SECS) : undefined,
    dedupe: dedupe ?? (hasDeliveryId ? { windowMs: DEFAULT_WINDOW_MS } : undefined),
  });
}

/** Completes a table without mistakes. */
export function toWebhooksConfig(
  webhooks: Complete<z.output<typeof webhooksSchema>>,
  claims: Pick<EntryClaims, "all">,
) {
  const ofParts = (i: number) => claims.all("webhooks.endpoints", i).map((claim) => claim.complete());
  return { ...webhooks, endpoints: webhooks.endpoints.map((table, i) => toEndpoint(table, ofParts(i))) };
}

function toEndpoint(table: EndpointOutput, ofParts: readonly EndpointOfPart[]) {
  const { auth, secret, secrets, apiKeyHeader, toleranceSecs, dedupe, challenge, ...endpoint } = table;
  return defined({
    ...endpoint,
    auth: toAuth(table),
    /** Undefined if every request starts a job. */
    dedupe: toDedupe(table),
    challenge: challenge && toChallenge(challenge),
    /** Undefined if the JobCalls have no order. */
    orderOf: ofParts.find(({ orderOf }) => orderOf)?.orderOf,
    limit: ofParts.find(({ limit }) => limit)?.limit,
  });
}

function toAuth(endpoint: EndpointOutput): WebhookAuth {
  const { auth: mode } = endpoint;
  switch (mode) {
    case "none":
      return { mode };
    case "api-key":
      return { mode, secrets: toSecrets(endpoint), header: endpoint.apiKeyHeader };
    case "standard-webhooks":
    case "svix":
    case "stripe":
    case "slack":
      return { mode, secrets: toSecrets(endpoint), toleranceSecs: required(endpoint.toleranceSecs) };
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
  if (dedupe === undefined || dedupe === false) return undefined;
  const { header, windowMs } = dedupe;
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
