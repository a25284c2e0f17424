import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { ERROR_KINDS } from "../../src/core/errors.ts";
import { GetJobPriceResponseSchema } from "../../src/gen/pricing_engine/pricing_pb.ts";
import { loadConfig } from "../../src/load-config.ts";
import { startTestGateway } from "../x402/gateway-harness.ts";

// Names of the specification of the ingress gateways, "Off-chain Job Ingress Gateways: Paid (x402) and Webhook", in the
// order of its sections. A name that is missing here is not checked.

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Names under "What the service does". */
const EXPORTS = {
  x402: ["BackgroundService", "JobCall", "X402Gateway", "X402Producer"],
  webhooks: ["BackgroundService", "JobCall", "WebhookGateway", "WebhookProducer"],
};

/** Keys and values of the configuration of both gateways. */
const CONFIG = `
[runner]
bind_address = "127.0.0.1:0"
[x402]
bind_address = "127.0.0.1:0"
public_url = "https://operator.example.com"
facilitator_url = "https://facilitator.example.com"
default_invocation_mode = "disabled"
[[x402.accepted_tokens]]
network = "base-sepolia"
token = "USDC"
pay_to = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
rate_per_native_unit = "3200"
markup_bps = 200
[[x402.job_policies]]
service_id = 1
job_index = 0
invocation_mode = "public_paid"
[[x402.job_policies]]
service_id = 1
job_index = 1
invocation_mode = "restricted_paid"
auth_mode = "payer_is_caller"
chain_rpc_url = "https://rpc.example.com"
chain_contract = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
[[x402.job_policies]]
service_id = 1
job_index = 2
invocation_mode = "restricted_paid"
auth_mode = "delegated_caller_signature"
chain_rpc_url = "https://rpc.example.com"
chain_contract = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
[[x402.job_policies]]
service_id = 1
job_index = 3
invocation_mode = "disabled"
[job_pricing.1]
0 = "1000000000000000"
1 = "1000000000000000"
2 = "1000000000000000"
3 = "1000000000000000"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/open"
job_id = 1
auth = "none"
[[webhooks.endpoints]]
path = "/bearer"
job_id = 2
name = "named"
auth = "bearer"
secret = "env:VAR_NAME"
[[webhooks.endpoints]]
path = "/hmac"
job_id = 3
auth = "hmac-sha256"
secret = "env:VAR_NAME"
[[webhooks.endpoints]]
path = "/key"
job_id = 4
auth = "api-key"
secret = "env:VAR_NAME"
api_key_header = "X-Other-Key"
[[webhooks.endpoints]]
path = "/default-key"
job_id = 5
auth = "api-key"
secret = "env:VAR_NAME"
`;

/** Names that are parts of the wire: metadata of JobCalls, headers, the signed text, the contract's function. */
const ON_THE_WIRE = [
  ...["X-X402-ORIGIN", "X-X402-QUOTE-DIGEST", "X-X402-PAYMENT-NETWORK", "X-X402-PAYMENT-TOKEN"],
  ...["X-CHAIN-SERVICE-ID", "X-CHAIN-CALL-ID", "X-WEBHOOK-PATH", "X-WEBHOOK-NAME"],
  ...["X-CHAIN-CALLER", "X-CHAIN-CALLER-SIG", "X-CHAIN-CALLER-NONCE", "X-CHAIN-CALLER-EXPIRY"],
  ...["X-Signature-256", "X-Hub-Signature-256", "X-Webhook-Signature", "X-API-Key", "sha256="],
  ...["x402-authorize:", "isPermittedCaller", "price_wei", "settlement_options", "call_id"],
  "/webhooks/health",
];

const ERROR_CODES = ["x402_disabled", "signature_replay"];

/** Counters for accepted, denied, replay-denied, enqueue-failed and dry-run outcomes. */
const COUNTERS = [
  ...["accepted", "policy_denied", "replay_denied", "enqueue_failed"],
  ...["auth_dry_run_allowed", "auth_dry_run_denied", "auth_dry_run_error"],
];

// test/api/embedding.test.ts loads the modules.
it.each(Object.entries(EXPORTS))("The package exports every class and type of %s", async (module, names) => {
  const declarations = await readFile(join(ROOT, `dist/types/api/${module}.d.ts`), "utf8");
  const exported = declarations.split("\n").filter((line) => line.startsWith("export "));
  for (const name of names)
    expect(exported).toContainEqual(expect.stringMatching(new RegExp(`\\b${name}\\b`)));
});

it("A configuration with every key and value of the specification has no mistake", async () => {
  const loaded = await loadConfig({ path: "jobgate.toml", toml: CONFIG, env: { VAR_NAME: "s".repeat(32) } });
  expect(loaded).toMatchObject({
    ok: true,
    config: { x402: { defaultInvocationMode: "disabled" }, webhooks: { endpoints: { length: 5 } } },
  });
});

it("Every name on the wire is in the sources", async () => {
  const files = await readdir(join(ROOT, "src"), { recursive: true });
  const sources = await Promise.all(
    files
      .filter((file) => file.endsWith(".ts") && !file.startsWith("page"))
      .map((file) => readFile(join(ROOT, "src", file), "utf8")),
  );
  // Header names are compared in lower case, and may be written so.
  const text = sources.join("\n").toLowerCase();
  const isWritten = (name: string) => ['"', "'", "`", "("].some((quote) => text.includes(quote + name));
  expect(ON_THE_WIRE.filter((name) => !isWritten(name.toLowerCase()))).toEqual([]);
});

it("The pricing engine's answer has the fields of the extension", () => {
  const fields = GetJobPriceResponseSchema.fields.map(({ name }) => name);
  expect(fields).toEqual(expect.arrayContaining(["settlement_options", "x402_endpoint"]));
});

it("The error codes, counters and routes of the paid gateway exist", async () => {
  for (const code of ERROR_CODES) expect(Object.keys(ERROR_KINDS)).toContain(code);
  const gateway = await startTestGateway();
  try {
    const health = await fetch(`${gateway.url}/x402/health`);
    expect([health.status, await health.text()]).toEqual([200, "ok"]);
    const stats = await fetch(`${gateway.url}/x402/stats`);
    expect(Object.keys(((await stats.json()) as { counters: object }).counters)).toEqual(
      expect.arrayContaining(COUNTERS),
    );
    const price = await fetch(`${gateway.jobUrl()}/price`);
    expect(await price.json()).toMatchObject({ price_wei: expect.any(String), settlement_options: [{}] });
    expect((await fetch(`${gateway.jobUrl(2)}/price`)).status).toBe(403);
    expect((await fetch(`${gateway.jobUrl(9)}/price`)).status).toBe(404);
    expect((await fetch(gateway.jobUrl(), { method: "POST" })).status).toBe(402);
    expect((await fetch(`${gateway.jobUrl()}/auth-dry-run`, { method: "POST" })).status).toBe(200);
  } finally {
    await gateway.stop();
  }
});
