import { generateKeyPairSync } from "node:crypto";
import type { WebhookEndpoint } from "../src/config/config.ts";
import type { HttpRequest } from "../src/http/request.ts";
import { schemeOf, signWebhook, webhookPath } from "../src/webhooks/auth/schemes.ts";
import { readWebhookEndpoints, startTree } from "./gateway.ts";
import { compete, type LoadResult, loadRow } from "./load.ts";
import { THIS_TREE } from "./trees.ts";

const CONNECTIONS = 64;
/** Authentications per round. */
const CHECKS = 5_000;
const CHECK_ROUNDS = 9;
const BODY = "x".repeat(1024);

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
  const { jobgate } = await startTree(THIS_TREE, { endpoints: endpoints.join("") });
  try {
    const byPath = new Map(
      (await readWebhookEndpoints(jobgate)).map((endpoint) => [endpoint.path, endpoint]),
    );
    const contestants = ROWS.map((row, i) => {
      const endpoint = byPath.get(`/hooks/mode-${i}`) as WebhookEndpoint;
      const target = {
        urls: [`${jobgate.webhooksUrl}${webhookPath(endpoint)}`],
        headers: signed(endpoint, row),
        body: BODY,
        isUnique: row.isUnique ?? false,
        status: 202,
        connections: CONNECTIONS,
      };
      return { name: row.what, pids: [jobgate.pid], target, row, endpoint };
    });
    const results = await compete(contestants);
    const [none] = results as [LoadResult, ...LoadResult[]];
    console.log(`\nWebhook authentication, ${BODY.length} B, ${CONNECTIONS} in flight, every 202 durable`);
    console.table(
      contestants.map(({ name, row, endpoint }, i) => {
        const result = results[i] as LoadResult;
        return {
          auth: name,
          "µs to authenticate": microsToAuthenticate(endpoint, row).toFixed(1),
          ...loadRow(result),
          "of none": (result.perSecond / none.perSecond).toFixed(2),
        };
      }),
    );
  } finally {
    await jobgate.stop();
  }
}

function signed(endpoint: WebhookEndpoint, { signingKey }: Row): Record<string, string> {
  return signWebhook(endpoint, Buffer.from(BODY), signingKey === undefined ? {} : { signingKey });
}

/** Time per request in the best of several rounds, the one least disturbed by other load. */
function microsToAuthenticate(endpoint: WebhookEndpoint, row: Row): number {
  const scheme = schemeOf(endpoint);
  const body = Buffer.from(BODY);
  const headers = Object.entries(signed(endpoint, row)).map(([name, value]) => [name.toLowerCase(), [value]]);
  const byName = Object.fromEntries(headers) as Record<string, string[]>;
  const request = {
    path: webhookPath(endpoint),
    headerValues: (name: string) => byName[name] ?? [],
  } as Pick<HttpRequest, "path" | "headerValues"> as HttpRequest;
  const rounds = Array.from({ length: CHECK_ROUNDS }, () => {
    const startedAt = performance.now();
    for (let i = 0; i < CHECKS; i += 1) {
      if (scheme.authenticate(request, body, Date.now()) === undefined) throw new Error("not authentic");
    }
    return ((performance.now() - startedAt) / CHECKS) * 1000;
  });
  return Math.min(...rounds);
}
