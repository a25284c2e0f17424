import { expect, test } from "vitest";
import { configOf, loadFiles, TOKEN, X402 } from "./config-folder.ts";

test("An empty file has the defaults and no gateway", async () => {
  const { parts, shown: _, file: __, ...core } = await configOf("");
  expect(core).toEqual({
    serviceId: 0n,
    store: {
      url: "sqlite:jobgate.db",
      maxPending: 100_000,
      parts,
    },
    runner: {
      bindAddress: { kind: "tcp", host: "127.0.0.1", port: 8403 },
      tokens: [],
      leaseMs: 60_000,
      maxAttempts: 10,
      retryBaseMs: 1000,
      retryMaxMs: 300_000,
      drainMs: 20_000,
    },
    operator: { bindAddress: { kind: "tcp", host: "127.0.0.1", port: 8405 }, tokens: [] },
  });
});

test("A gateway with only the required keys has the documented defaults", async () => {
  // The promises are those of the parts of the build.
  const { promises: _, ...x402 } = (await configOf(X402 + TOKEN)).x402 ?? {};
  expect(x402).toEqual({
    bindAddress: { kind: "tcp", host: "0.0.0.0", port: 8402 },
    publicUrl: "https://operator.example.com",
    facilitators: [
      { kind: "remote", name: "facilitator.example.com", url: "https://facilitator.example.com" },
    ],
    facilitatorTimeoutMs: 30_000,
    quoteTtlSecs: 300,
    maxBodyBytes: 1_048_576,
    maxUndecided: 100_000,
    maxOpenPerPayer: 256,
    settleMarginSecs: 60,
    defaultInvocationMode: "disabled",
    corsOrigins: ["*"],
    acceptedTokens: [
      {
        network: "eip155:84532",
        asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
        symbol: "USDC",
        decimals: 6,
        payTo: "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
        rate: { kind: "fixed", ratePerNativeUnit: "3200.00" },
        markupBps: 0,
        transferMethod: "eip3009",
        eip3009: { name: "USDC", version: "2" },
        confirmations: 1,
        requireOnchainConfirmation: false,
      },
    ],
    jobPolicies: [],
    priceSource: "map",
    jobPricing: new Map(),
    parts: expect.any(Map),
    limits: { maxUnpaidPerSecondPerClient: 1000, maxVerifiesPerClient: 128, maxVerifies: 512 },
  });
});

test("A token inherits rate and markup from its table, and is confirmed on chain if it has an RPC", async () => {
  const own = TOKEN.replace('rate_per_native_unit = "3200.00"', 'rpc_url = "http://127.0.0.1:8545"');
  const { x402 } = await configOf(`${X402}rate_per_native_unit = "1.5"\nmarkup_bps = 65535\n${own}`);
  expect(x402?.acceptedTokens[0]).toMatchObject({
    rate: { kind: "fixed", ratePerNativeUnit: "1.5" },
    markupBps: 65535,
    requireOnchainConfirmation: true,
  });
});

test("Origins of web pages are read as browsers send them", async () => {
  const origins = ["https://Shop.example", "http://localhost:3000", "https://a.example:443"];
  const { x402 } = await configOf(
    `${X402}cors_origins = ${JSON.stringify([...origins, "app://x"])}\n${TOKEN}`,
  );
  expect(x402?.corsOrigins).toEqual([
    "https://shop.example",
    "http://localhost:3000",
    "https://a.example",
    "app://x",
  ]);
});

test("The command line's service id takes precedence over the file's, and that over x402's", async () => {
  expect((await configOf("service_id = 5", { serviceId: 9n })).serviceId).toBe(9n);
  expect((await configOf(`service_id = 5\n${X402}service_id = 6\n${TOKEN}`)).serviceId).toBe(5n);
  expect((await configOf(`${X402}service_id = 6\n${TOKEN}`)).serviceId).toBe(6n);
});

test("Ids keep every digit up to the end of u64", async () => {
  const config = await configOf(`service_id = "18446744073709551615"
[[webhooks.endpoints]]
path = "/a"
job_id = 9007199254740993
[job_pricing.18446744073709551615]
4294967295 = "1"
`);
  expect(config.serviceId).toBe(18446744073709551615n);
  expect(config.webhooks?.endpoints[0]?.jobId).toBe(9007199254740993n);
});

test("A price map keeps ids and wei exactly", async () => {
  const wei = (2n ** 256n - 1n).toString();
  const { x402 } = await configOf(
    `${X402}${TOKEN}[job_pricing.18446744073709551615]\n4294967295 = "${wei}"\n`,
  );
  expect(x402?.jobPricing).toEqual(new Map([["18446744073709551615/4294967295", 2n ** 256n - 1n]]));
});

test("Addresses in lower or upper case get their checksum", async () => {
  const upper = TOKEN.replace(
    "036CbD53842c5426634e7929541eC2318f3dCF7e",
    "036CBD53842C5426634E7929541EC2318F3DCF7E",
  );
  const lower = TOKEN.replace(
    "036CbD53842c5426634e7929541eC2318f3dCF7e",
    "036cbd53842c5426634e7929541ec2318f3dcf7e",
  );
  for (const token of [upper, lower]) {
    const { x402 } = await configOf(X402 + token);
    expect(x402?.acceptedTokens[0]?.asset).toBe("0x036CbD53842c5426634e7929541eC2318f3dCF7e");
  }
});

test("Spans can have fractions of a second", async () => {
  expect((await configOf("[runner]\nlease_secs = 0.25")).runner.leaseMs).toBe(250);
});

test("An API key is expected in X-API-Key unless another header is named", async () => {
  const endpoint = '[[webhooks.endpoints]]\npath = "/a"\njob_id = 1\nauth = "api-key"\nsecret = "k"\n';
  const auth = async (toml: string) => (await configOf(toml)).webhooks?.endpoints[0]?.auth;
  expect(await auth(endpoint)).toEqual({
    mode: "api-key",
    secrets: [{ name: "secret", secret: "k" }],
    header: "X-API-Key",
  });
  expect(await auth(`${endpoint}api_key_header = "X-Mine"\n`)).toEqual({
    mode: "api-key",
    secrets: [{ name: "secret", secret: "k" }],
    header: "X-Mine",
  });
});

test("A missing service id or public URL is a warning, not a mistake", async () => {
  const result = await loadFiles(`${X402.replace(/public_url.*\n/, "")}${TOKEN}[webhooks]\n`);
  expect(result.ok && result.warnings.map(({ keyPath }) => keyPath).sort()).toEqual([
    "service_id",
    "x402.public_url",
  ]);
  expect(result.ok && result.config.x402?.publicUrl).toBe("http://127.0.0.1:8402");
});

test("Names each facilitator by host and path, without what may be a key", async () => {
  const url = (path: string) => X402.replace("example.com", `example.com:8443${path}`);
  const names = ["/platform/v2/x402/", "/v2/0123456789abcdef0123/x402"].map(
    async (path) => (await configOf(url(path) + TOKEN)).x402?.facilitators[0]?.name,
  );
  expect(await Promise.all(names)).toEqual([
    "facilitator.example.com:8443/platform/v2/x402",
    "facilitator.example.com:8443/v2/…/x402",
  ]);
});

test("Credentials in an https URL are accepted", async () => {
  const toml = X402.replace("https://facilitator", "https://user:pass@facilitator");
  expect((await configOf(toml + TOKEN)).x402?.facilitators).toEqual([
    { kind: "remote", name: "facilitator.example.com", url: "https://user:pass@facilitator.example.com" },
  ]);
});
