import { readFile } from "node:fs/promises";
import { parse, stringify, type TomlTable } from "smol-toml";
import { expect, test } from "vitest";
import { mistakeText } from "../../src/config/mistakes.ts";
import { loadConfig } from "../../src/load-config.ts";

/** Tables that the example has not, or in another form. */
const LOCAL_FACILITATOR = `
service_id = 1
[runner]
bind_address = "0.0.0.0:8403"
token = "runner-token"
[operator]
bind_address = "0.0.0.0:8405"
token = ["operator-token"]
[[push]]
url = "https://runner.example/jobs"
secret = "whsec_${"c2VjcmV0".repeat(4)}"
[[callbacks]]
url = "https://alerts.example/hook"
events = ["payment.settled"]
secret = "whsec_${"c2VjcmV0".repeat(4)}"
[x402]
bind_address = "0.0.0.0:8402"
public_url = "https://shop.example"
default_invocation_mode = "public_paid"
forward_headers = ["accept-language"]
[x402.facilitator_service]
bind_address = "127.0.0.1:8406"
tokens = [{ name = "a", token = "seller-a" }, "seller-b"]
[x402.mpp]
secret_key = "c0ffee0123456789c0ffee0123456789c0ffee0123456789c0ffee0123456789"
challenge_ttl_secs = 60
[x402.refunds]
signer = { private_key = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d" }
[x402.receipts]
signer = { private_key = "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a" }
[[x402.facilitators]]
local = true
signer = { private_key = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80" }
rpc_urls = { base-sepolia = "https://base.example" }
[[x402.accepted_tokens]]
network = "base-sepolia"
token = "USDC"
pay_to = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
rpc_url = "https://base.example"
transfer_method = "permit2"
[[x402.accepted_tokens]]
network = "base-sepolia"
asset = "0x57f1c63497aee0be305b8852b354cec793da43bb"
symbol = "WEI"
decimals = 18
pay_to = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
rpc_url = "https://base.example"
transfer_method = "eip3009"
eip3009_name = "Wei"
eip3009_version = "1"
require_onchain_confirmation = true
rate_source = { http = { url = "https://rates.example/eth", pointer = "/rate", max_age_secs = 60, refresh_secs = 5 } }
[[jobs]]
job_index = 0
name = "a"
price = "$0.01"
charge = "used"
min_charge = "10%"
[[jobs]]
job_index = 1
name = "b"
price_wei = "1000000000000"
on_failure = "refund"
[[jobs]]
job_index = 2
name = "c"
mode = "restricted_paid"
auth_mode = "payer_is_caller"
chain_rpc_url = "https://base.example"
chain_contract = "0x0165878A594ca255338adfa4d48449f69242Eb8F"
price = "engine"
[pricing_engine]
url = "http://127.0.0.1:50051"
chain_id = 8453
verifying_contract = "0x0165878A594ca255338adfa4d48449f69242Eb8F"
operator_address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 1
auth = "hmac-sha256"
secrets = [{ name = "new", secret = "0123456789abcdef0123456789abcdef" }]
dedupe = { header = "X-Delivery-Id", window_secs = 3600 }
challenge = { parameter = "hub.challenge", token = "verify-token" }
`;

const SECRET = "0123456789abcdef0123456789abcdef";
const KEY = `whsec_${"c2VjcmV0".repeat(4)}`;

type Path = readonly (string | number)[];

async function mistakesIn(tree: TomlTable): Promise<string[]> {
  const result = await loadConfig({ path: "jobgate.toml", toml: stringify(tree), env: {} });
  return result.ok
    ? []
    : result.mistakes.map(({ keyPath, message }) => mistakeText({ file: "", keyPath, message }));
}

/** Every table, array and value of a tree. */
function pathsOf(value: unknown, path: Path): Path[] {
  if (typeof value !== "object" || value === null) return [path];
  const below = Object.entries(value).flatMap(([key, item]) =>
    pathsOf(item, [...path, Array.isArray(value) ? Number(key) : key]),
  );
  return path.length === 0 ? below : [path, ...below];
}

const valueAt = (tree: TomlTable, path: Path): unknown =>
  path.reduce<unknown>((at, key) => (at as never)[key], tree);

/** Returns a copy of a tree with another value at a path, or with none. */
function changed(tree: TomlTable, path: Path, value: unknown): TomlTable {
  const copy = structuredClone(tree);
  const parent = valueAt(copy, path.slice(0, -1)) as Record<string, unknown>;
  const key = path.at(-1) as string;
  if (value !== undefined) parent[key] = value;
  else if (Array.isArray(parent)) parent.splice(Number(key), 1);
  else delete parent[key];
  return copy;
}

const textOf = (path: Path) =>
  path.reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : `${text}${text && "."}${key}`),
    "",
  );

/** A table gets an unknown key, a value becomes a text that is none, and each is left out. */
const wrongValuesFor = (value: unknown) => [
  typeof value === "object" ? { unknown_key: 1 } : "wr\u0001ng",
  undefined,
];

/**
 * Tests that a wrong value leads to no mistakes elsewhere.
 * @param every 1 tries each value of the files, 2 every second one
 */
export function testConsequences({ every }: { readonly every: number }): void {
  test.each([
    [
      "the example",
      async () =>
        (await readFile("jobgate.example.toml", "utf8"))
          .replace(/"env:(PUSH|CALLBACK)_SECRET"/g, JSON.stringify(KEY))
          .replace(/"env:[A-Z_]+"/g, JSON.stringify(SECRET)),
    ],
    ["a gateway with a local facilitator", async () => LOCAL_FACILITATOR],
  ])("A wrong or missing value of %s is the only mistake, whatever follows from it", async (_, read) => {
    const tree = parse(await read());
    expect(await mistakesIn(tree)).toEqual([]);
    const consequences: string[] = [];
    let wrongValues = 0;
    for (const path of pathsOf(tree, []).filter((_, place) => place % every === 0)) {
      for (const value of wrongValuesFor(valueAt(tree, path))) {
        const at = textOf(path);
        const found = await mistakesIn(changed(tree, path, value));
        const isAt = (text: string) => [": ", ".", "["].some((next) => text.startsWith(`${at}${next}`));
        if (!found.some(isAt)) continue;
        wrongValues++;
        consequences.push(
          ...found.filter((text) => !isAt(text)).map((text) => `${at} = ${JSON.stringify(value)} → ${text}`),
        );
      }
    }
    expect(wrongValues).toBeGreaterThan(50 / every);
    expect(consequences).toEqual([]);
  });
}
