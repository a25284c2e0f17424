import { describe, expect, test } from "vitest";
import { describeWrong } from "../../../src/config/wrong-value.ts";
import { mppKey, mppTable } from "../../../src/parts/mpp/config.ts";
import { loadFiles, TOKEN, X402 } from "../../config/config-folder.ts";

const KEY = "5b1f0ad9c3e7426880b4f1d2a697c35e".repeat(2);
const load = (mpp: string, key = KEY) =>
  loadFiles(`${X402}${TOKEN}[x402.mpp]\nsecret_key = "env:MPP_KEY"\n${mpp}`, { env: { MPP_KEY: key } });

async function configOf(mpp: string) {
  const result = await load(mpp);
  if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
  return result.config;
}

test("The realm is the host of the public URL, and challenges live as long as offers, unless the table says otherwise", async () => {
  const keys = { secretKeys: [KEY] };
  const own = async (mpp: string) => mppTable.in(await configOf(mpp));
  expect(await own("")).toEqual({ ...keys, realm: "operator.example.com", challengeTtlSecs: 300 });
  expect(await own('realm = "shop"\nchallenge_ttl_secs = 60\n')).toEqual({
    ...keys,
    realm: "shop",
    challengeTtlSecs: 60,
  });
});

test("Operators see the realm and the lifetime of challenges that the table leaves out", async () => {
  const { shown } = await configOf("");
  expect(shown.x402).toMatchObject({
    mpp: {
      realm: "operator.example.com",
      challenge_ttl_secs: 300,
      secret_key: "environment variable MPP_KEY",
    },
  });
});

describe("A mistake of [x402.mpp] is found:", () => {
  const mistakesOf = async (mpp: string, key?: string) => {
    const result = await load(mpp, key);
    return result.ok ? [] : result.mistakes.map(({ keyPath }) => keyPath);
  };

  test.each([
    ["is short", KEY.slice(1)],
    ["is in upper case", KEY.toUpperCase()],
    ["was typed by hand", "ab".repeat(32)],
    ["is an example's", "0123456789abcdef".repeat(4)],
  ])("a key that %s", async (_what, key) => {
    expect(await mistakesOf("", key)).toEqual(["x402.mpp.secret_key"]);
  });

  test("challenges that outlive the offers", async () => {
    expect(await mistakesOf("challenge_ttl_secs = 301\n")).toEqual(["x402.mpp.challenge_ttl_secs"]);
    expect(await mistakesOf("challenge_ttl_secs = 300\n")).toEqual([]);
  });
});

test("A wrong key is described without being quoted", () => {
  const { found, hint } = describeWrong(mppKey(), "abcdef");
  expect(`${found}; ${hint}`).toMatch(/^has 6 hex digits; expected 64/);
});

/** The SDK's own example, with a payee and the transfer method that its comments recommend for USDC. */
const SDK_EXAMPLE = `bind_address = "0.0.0.0:8402"
facilitator_url = "https://x402.org/facilitator"
quote_ttl_secs = 300
default_invocation_mode = "disabled"
service_id = 1
[[job_policies]]
service_id = 1
job_index = 0
invocation_mode = "public_paid"
[[job_policies]]
service_id = 1
job_index = 1
invocation_mode = "restricted_paid"
auth_mode = "payer_is_caller"
tangle_rpc_url = "http://127.0.0.1:8545"
tangle_contract = "0x0000000000000000000000000000000000000001"
[[accepted_tokens]]
network = "eip155:8453"
asset   = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
symbol  = "USDC"
decimals = 6
pay_to  = "0x0000000000000000000000000000000000000002"
rate_per_native_unit = "3200.00"
markup_bps = 200
transfer_method = "eip3009"
eip3009_name = "USD Coin"
eip3009_version = "2"
[mpp]
realm = "operator.example.com"
secret_key = "env:MPP_KEY"
challenge_ttl_secs = 300
`;

test("The SDK's example loads, [mpp] included", async () => {
  const files = { "jobgate.toml": 'x402 = "x402.toml"\n', "x402.toml": SDK_EXAMPLE };
  const result = await loadFiles(files, { env: { MPP_KEY: KEY } });
  if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
  const mpp = { realm: "operator.example.com", secretKeys: [KEY], challengeTtlSecs: 300 };
  expect(mppTable.in(result.config)).toEqual(mpp);
});
