import { z } from "zod";
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
} from "./value-types.ts";
import { WEBHOOK_AUTH_MODES, type WebhookAuthMode } from "./webhook-auth-modes.ts";
import { DEFAULT_WINDOW_SECS } from "./webhook-defaults.ts";

const AUTH_MODES = Object.keys(WEBHOOK_AUTH_MODES) as [WebhookAuthMode, ...WebhookAuthMode[]];
const SECRET = "the secret, or env:NAME";

const namedSecret = z.object({ name: label(), secret: text(SECRET) });

const dedupe = z.object({
  header: headerName().optional(),
  window_secs: integer(1, 31_536_000).default(BigInt(DEFAULT_WINDOW_SECS)),
});

const challenge = z.object({
  parameter: queryParameter(),
  method: oneOf(["GET", "POST"]).default("GET"),
  token_parameter: queryParameter().optional(),
  token: headerSecret().optional(),
});

const endpoint = z.object({
  path: webhookPath(),
  job_id: u64(),
  auth: oneOf(AUTH_MODES).default("none"),
  secret: text(SECRET).optional(),
  secrets: z
    .array(z.union([text(SECRET), namedSecret]).describe('a secret, or a table { name = "…", secret = "…" }'))
    .describe("an array of secrets")
    .optional(),
  api_key_header: headerName().default("X-API-Key"),
  tolerance_secs: integer(1, 86_400).optional(),
  dedupe: z
    .union([z.literal(false), dedupe])
    .describe('a table such as { header = "X-Delivery-Id" }, or false')
    .optional(),
  challenge: challenge.optional(),
  rate_limit_per_second: integer(1, 1_000_000).optional(),
  allow_cidrs: z.array(ipRange()).describe("an array of address ranges").optional(),
  name: label().optional(),
});

/** The `[webhooks]` table; what holds between its keys is in rules/. */
export const webhooksSchema = z.object({
  bind_address: tcpAddress().default("0.0.0.0:9090"),
  max_body_bytes: maxBodyBytes(),
  trusted_proxies: z.array(ipRange()).describe("an array of address ranges").default([]),
  endpoints: z.array(endpoint).describe("an array of tables, one for each path").default([]),
});
