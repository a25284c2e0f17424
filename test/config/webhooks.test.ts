import { expect, test } from "vitest";
import type { WebhookEndpoint } from "../../src/config/config.ts";
import { loadFiles } from "./config-folder.ts";

async function webhooksOf(toml: string) {
  const result = await loadFiles(`service_id = 1\n${toml}`, { env: { OLD: "old" } });
  if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
  return result.config.webhooks;
}

async function endpointOf(keys: string): Promise<WebhookEndpoint | undefined> {
  const webhooks = await webhooksOf(`[[webhooks.endpoints]]\npath = "/a"\njob_id = 1\n${keys}`);
  return webhooks?.endpoints[0];
}

const DAY_MS = 86_400_000;
const KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const github = (keys: string) => endpointOf(`auth = "github"\nsecret = "s"\n${keys}`);

test("Secrets keep their names and order; a secret without a name is named by its position", async () => {
  const endpoint = await endpointOf(
    'auth = "github"\nsecrets = ["new", { name = "2025", secret = "env:OLD" }]',
  );
  expect(endpoint?.auth).toEqual({
    mode: "github",
    secrets: [
      { name: "secrets[0]", secret: "new" },
      { name: "2025", secret: "old" },
    ],
  });
});

test("Only modes with timed requests have a tolerance, 300 s by default", async () => {
  const secrets = [{ name: "secret", secret: KEY }];
  for (const mode of ["standard-webhooks", "svix", "stripe", "slack"]) {
    const keys = `auth = "${mode}"\nsecret = "${KEY}"\n`;
    expect((await endpointOf(keys))?.auth).toEqual({ mode, secrets, toleranceSecs: 300 });
    expect((await endpointOf(`${keys}tolerance_secs = 60`))?.auth).toEqual({
      mode,
      secrets,
      toleranceSecs: 60,
    });
  }
  expect((await github(""))?.auth).not.toHaveProperty("toleranceSecs");
});

test("Repeats are recognized by the sender's delivery id for a day, in the modes that have one", async () => {
  for (const mode of ["standard-webhooks", "svix", "github", "stripe", "slack", "shopify"])
    expect((await endpointOf(`auth = "${mode}"\nsecret = "${KEY}"`))?.dedupe).toEqual({
      by: "id",
      windowMs: DAY_MS,
    });
  for (const mode of ["bearer", "hmac-sha256", "api-key", "url-token"])
    expect(await endpointOf(`auth = "${mode}"\nsecret = "0123456789abcdef"`)).not.toHaveProperty("dedupe");
  expect(await endpointOf("")).not.toHaveProperty("dedupe");
});

test("dedupe names a header, the body, only a window, or is off", async () => {
  expect((await endpointOf('dedupe = { header = "X-Id", window_secs = 60 }'))?.dedupe).toEqual({
    by: "header",
    header: "x-id",
    windowMs: 60_000,
  });
  expect((await endpointOf('dedupe = { header = "body" }'))?.dedupe).toEqual({
    by: "body",
    windowMs: DAY_MS,
  });
  expect((await github("dedupe = { window_secs = 60 }"))?.dedupe).toEqual({ by: "id", windowMs: 60_000 });
  expect(await github("dedupe = false")).not.toHaveProperty("dedupe");
});

test("A challenge uses GET and hub.verify_token by default", async () => {
  expect((await github('challenge = { parameter = "challenge" }'))?.challenge).toEqual({
    parameter: "challenge",
    method: "GET",
  });
  expect((await github('challenge = { parameter = "hub.challenge", token = "env:OLD" }'))?.challenge).toEqual(
    {
      parameter: "hub.challenge",
      method: "GET",
      verify: { parameter: "hub.verify_token", token: "old" },
    },
  );
  const other = 'challenge = { parameter = "a", method = "POST", token = "t", token_parameter = "b" }';
  expect((await github(other))?.challenge).toEqual({
    parameter: "a",
    method: "POST",
    verify: { parameter: "b", token: "t" },
  });
});

test("Ranges are parsed with length and family; a single address is a full-length range", async () => {
  const webhooks = await webhooksOf(
    `[webhooks]\ntrusted_proxies = ["::1"]\n[[webhooks.endpoints]]\npath = "/a"\njob_id = 1
allow_cidrs = ["203.0.113.0/24", "198.51.100.7", "2001:db8::/32"]\nrate_limit_per_second = 5`,
  );
  expect(webhooks?.trustedProxies).toEqual([{ address: "::1", prefixBits: 128, family: "ipv6" }]);
  expect(webhooks?.endpoints[0]?.rateLimitPerSecond).toBe(5);
  expect(webhooks?.endpoints[0]?.allowCidrs).toEqual([
    { address: "203.0.113.0", prefixBits: 24, family: "ipv4" },
    { address: "198.51.100.7", prefixBits: 32, family: "ipv4" },
    { address: "2001:db8::", prefixBits: 32, family: "ipv6" },
  ]);
});
