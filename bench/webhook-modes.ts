import { generateKeyPairSync } from "node:crypto";
import autocannon from "autocannon";
import type { WebhookEndpoint } from "../src/config/config.ts";
import { loadConfig } from "../src/config/load-config.ts";
import type { HttpRequest } from "../src/http/request.ts";
import { schemeOf, signWebhook, webhookPath } from "../src/webhooks/auth/schemes.ts";
import { startJobgate } from "../test/helpers/jobgate-process.ts";
import { CONFIG } from "./webhook.ts";

const CONNECTIONS = 64;
/** Length of each turn of a row or its baseline. */
const SECONDS = 1;
const TURNS = 4;
/** Authentications per round. */
const CHECKS = 5_000;
const CHECK_ROUNDS = 9;
const BODY_BYTES = 1024;

const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const lastBytes = (der: Buffer) => der.subarray(-32).toString("base64");
const PUBLIC_KEY = `whpk_${lastBytes(publicKey.export({ format: "der", type: "spki" }))}`;
const PRIVATE_KEY = `whsk_${lastBytes(privateKey.export({ format: "der", type: "pkcs8" }))}`;
const SHARED_KEY = `whsec_${Buffer.alloc(24, 1).toString("base64")}`;

interface Row {
  readonly what: string;
  readonly auth: string;
  readonly keys: string;
  readonly signingKey?: string;
  /** Each request has its own body, so that none is a repeat. */
  readonly isUnique?: boolean;
}

const SECRET = 'secret = "0123456789abcdef0123456789abcdef"\n';
const plain = (auth: string, keys = SECRET): Row => ({ what: auth, auth, keys: `${keys}dedupe = false` });
const ROWS: readonly Row[] = [
  plain("none", ""),
  ...["bearer", "api-key", "url-token", "hmac-sha256", "github", "shopify", "stripe", "slack"].map((auth) =>
    plain(auth),
  ),
  plain("standard-webhooks", `secret = "${SHARED_KEY}"\n`),
  plain("svix", `secret = "${SHARED_KEY}"\n`),
  {
    ...plain("standard-webhooks", `secret = "${PUBLIC_KEY}"\n`),
    what: "standard-webhooks, ed25519",
    signingKey: PRIVATE_KEY,
  },
  { what: "none, each body once", auth: "none", keys: "", isUnique: true },
  {
    what: "none, each body once, dedupe",
    auth: "none",
    keys: 'dedupe = { header = "body" }',
    isUnique: true,
  },
  { what: "none, dedupe, repeats only", auth: "none", keys: 'dedupe = { header = "body" }' },
];

/** Measures each authentication mode, and deduplication, beside `none` in the same process. */
export async function benchWebhookModes(): Promise<void> {
  const endpoints = ROWS.map(
    ({ auth, keys }, i) =>
      `[[webhooks.endpoints]]\npath = "/hooks/mode-${i}"\njob_id = 1\nauth = "${auth}"\n${keys}\n`,
  );
  const jobgate = await startJobgate({ config: `${CONFIG}${endpoints.join("")}`, from: "build" });
  try {
    const loaded = await loadConfig({ path: jobgate.configPath, env: {} });
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
    const byPath = new Map(loaded.config.webhooks?.endpoints.map((endpoint) => [endpoint.path, endpoint]));
    const endpointOf = (i: number) => byPath.get(`/hooks/mode-${i}`) as WebhookEndpoint;
    const [baseline] = ROWS as readonly [Row, ...Row[]];
    const rows = [];
    for (const [i, row] of ROWS.entries()) {
      const total = { none: 0, row: 0 };
      // Modes take turns, because the store grows while the process runs.
      for (let turn = 0; turn < TURNS; turn += 1) {
        const none = { ...baseline, isUnique: row.isUnique ?? false };
        total.none += await accepts(jobgate.webhooksUrl, endpointOf(0), none);
        total.row += await accepts(jobgate.webhooksUrl, endpointOf(i), row);
      }
      rows.push({
        auth: row.what,
        "µs to authenticate": microsToAuthenticate(endpointOf(i), row).toFixed(1),
        "accepts/s": Math.round(total.row / (TURNS * SECONDS)),
        "of none": (total.row / total.none).toFixed(2),
      });
    }
    console.log(`\nWebhook authentication, ${BODY_BYTES} B, ${CONNECTIONS} in flight, every 202 durable`);
    console.table(rows);
  } finally {
    await jobgate.stop();
  }
}

const BODY = Buffer.alloc(BODY_BYTES, "x");

function signed(endpoint: WebhookEndpoint, { signingKey }: Row): Record<string, string> {
  return signWebhook(endpoint, BODY, signingKey === undefined ? {} : { signingKey });
}

/** Time per request in the best of several rounds, the one least disturbed by other load. */
function microsToAuthenticate(endpoint: WebhookEndpoint, row: Row): number {
  const scheme = schemeOf(endpoint);
  const headers = Object.entries(signed(endpoint, row)).map(([name, value]) => [name.toLowerCase(), [value]]);
  const byName = Object.fromEntries(headers) as Record<string, string[]>;
  const request = {
    path: webhookPath(endpoint),
    headerValues: (name: string) => byName[name] ?? [],
  } as Pick<HttpRequest, "path" | "headerValues"> as HttpRequest;
  const rounds = Array.from({ length: CHECK_ROUNDS }, () => {
    const startedAt = performance.now();
    for (let i = 0; i < CHECKS; i += 1) {
      if (scheme.authenticate(request, BODY, Date.now()) === undefined) throw new Error("not authentic");
    }
    return ((performance.now() - startedAt) / CHECKS) * 1000;
  });
  return Math.min(...rounds);
}

let bodies = 0;

async function accepts(webhooksUrl: string, endpoint: WebhookEndpoint, row: Row): Promise<number> {
  const another = (request: autocannon.Request) => {
    bodies += 1;
    return { ...request, body: String(bodies).padEnd(BODY_BYTES) };
  };
  const result = await autocannon({
    url: `${webhooksUrl}${webhookPath(endpoint)}`,
    method: "POST",
    headers: signed(endpoint, row),
    body: BODY,
    connections: CONNECTIONS,
    duration: SECONDS,
    ...(row.isUnique ? { requests: [{ setupRequest: another }] } : {}),
  });
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${endpoint.auth.mode}: ${result.non2xx} answers were not 2xx, ${result.errors} failed`);
  return result.requests.total;
}
