import { expect, test } from "vitest";
import { configOf, loadFiles, TOKEN, X402 } from "../../config/config-folder.ts";
import { header, testMistakes, without } from "../../config/mistake-cases.ts";

const PRESET = `[[x402.accepted_tokens]]
token = "USDC"
network = "base"
pay_to = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
`;
const METERED = `service_id = 1\n${X402}${TOKEN}`.replace(
  'transfer_method = "eip3009"',
  'transfer_method = "permit2"\nrpc_url = "http://127.0.0.1:1"',
);
const job = (keys: string) => `[[jobs]]\njob_index = 0\n${keys}\n`;

test("A preset that only Permit2 can pay is paid by it, with its domain if it has EIP-2612", async () => {
  const { x402 } = await configOf(
    `${X402}${PRESET.replace("USDC", "MegaUSD").replace("base", "megaeth")}${PRESET.replace("base", "eip155:38833")}`,
  );
  const [megaUsd, usdc] = x402?.acceptedTokens ?? [];
  expect(megaUsd).toMatchObject({ transferMethod: "permit2", eip3009: { name: "MegaUSD", version: "1" } });
  expect(usdc).toMatchObject({ symbol: "USDC", transferMethod: "permit2" });
  expect(usdc).not.toHaveProperty("eip3009");
});

test.each([
  ["nor a name", ["transfer_method", "eip3009_name", "eip3009_version"], undefined],
  ["but with a name", ["transfer_method"], { name: "USDC", version: "2" }],
])("A token of the SDK without a method %s is paid by Permit2, with a warning", async (_, left, eip3009) => {
  const result = await loadFiles(`service_id = 1\n${X402}${left.reduce(without, TOKEN)}`);
  if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
  expect(result.config.x402?.acceptedTokens).toMatchObject([
    { symbol: "USDC", transferMethod: "permit2", ...(eip3009 && { eip3009 }) },
  ]);
  expect(result.warnings.map(({ keyPath, message }) => `${keyPath} ${message}`)).toContainEqual(
    expect.stringMatching(
      /transfer_method is missing, so the token is paid by Permit2.*"eip3009", which this token has, or token = "USDC"/,
    ),
  );
  expect(result.warnings.map(({ keyPath }) => keyPath)).toContain("x402.accepted_tokens[0].rpc_url");
});

test.each([
  ["a preset", 'token = "USDC"'],
  ["an address", 'asset = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"\nsymbol = "USDC"\ndecimals = 6'],
])("A token with EIP-3009, by %s, that is paid by Permit2 alone is warned of", async (_, named) => {
  const entry = (method: string) =>
    `[[x402.accepted_tokens]]\nnetwork = "base"\n${named}\npay_to = "0x${"ab".repeat(20)}"\nrpc_url = "http://127.0.0.1:1"\nrate_per_native_unit = "1"\n${method}\n`;
  const permit2 = entry('transfer_method = "permit2"');
  const eip3009 = entry('transfer_method = "eip3009"\neip3009_name = "USD Coin"\neip3009_version = "2"');
  const warningsOf = async (tokens: string) => {
    const head =
      'service_id = 1\n[runner]\nbind_address = "127.0.0.1:0"\n[store]\nurl = "sqlite:a.db"\n[x402]\nbind_address = "127.0.0.1:0"\npublic_url = "http://127.0.0.1"\nfacilitator_url = "http://127.0.0.1:1"\n[job_pricing.1]\n0 = "1000000000000000"\n';
    const result = await loadFiles({ "jobgate.toml": `${head}${tokens}` });
    if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
    return result.warnings.flatMap(({ keyPath, message }) =>
      keyPath.endsWith("transfer_method") ? [message] : [],
    );
  };
  expect(await warningsOf(permit2)).toEqual([expect.stringContaining("although the token has EIP-3009")]);
  expect(await warningsOf(`${permit2}${eip3009}`)).toEqual([]);
  expect(await warningsOf(`${permit2}${job('mode = "public_paid"\ncharge = "used"')}`)).toEqual([]);
});

testMistakes([
  {
    promise: "A method that this build does not have is a mistake that lists its methods",
    toml: `${X402}${TOKEN.replace('"eip3009"', '"permit3" #!')}`,
    keyPath: "x402.accepted_tokens[0].transfer_method",
    message:
      /is "permit3"; expected "eip3009".* "permit2".* \(the transfer methods of this build\); did you mean "permit2"\?/,
    suggestion: "permit2",
  },
  {
    promise: "Half of an EIP-712 domain is a mistake for Permit2 too",
    toml: header(
      `${X402}${without(TOKEN, "eip3009_version").replace('"eip3009"', '"permit2"')}`,
      "[[x402.accepted_tokens]]",
    ),
    keyPath: "x402.accepted_tokens[0].eip3009_version",
    message: /EIP-712/,
  },
  {
    promise: "A metered charge needs a token that Permit2 pays",
    toml: `service_id = 1\n${X402}${TOKEN}${job('charge = "used" #!')}`,
    keyPath: "jobs[0].charge",
    message: /which only Permit2 pays; expected an accepted token with transfer_method = "permit2"/,
  },
  {
    promise: "A least charge in dollars is for a price in dollars",
    toml: `${METERED}${job('min_charge = "$0.01" #!\ncharge = "used"')}`,
    keyPath: "jobs[0].min_charge",
    message: /is in dollars, and the price is not/,
  },
]);
