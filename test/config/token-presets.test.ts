import { DEFAULT_ASSETS } from "@x402/evm";
import { EVM_NETWORK_CHAIN_ID_MAP } from "@x402/evm/v1";
import { expect, test } from "vitest";
import { CHAIN_IDS_BY_NAME, TOKEN_PRESETS } from "../../src/config/token-presets.ts";
import { configOf, mistakesOf, X402 } from "./config-folder.ts";
import { testMistakes } from "./mistake-cases.ts";

const PRESET = `[[x402.accepted_tokens]]
token = "USDC"
network = "base"
pay_to = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
`;

test("The presets are the SDK's default assets", () => {
  const assets = Object.entries(DEFAULT_ASSETS).flatMap(([network, list]) =>
    list.map(({ symbol, asset, decimals, name, version, ...methods }) => ({
      ...{ network, symbol, asset, decimals },
      // As the SDK's server offers it: without a domain, clients sign no EIP-2612 permit.
      ...((methods.assetTransferMethod === undefined || methods.supportsEip2612) && {
        eip3009Name: name,
        eip3009Version: version,
      }),
      hasEip3009: methods.assetTransferMethod === undefined,
    })),
  );
  expect(TOKEN_PRESETS).toEqual(assets);
});

test("The network names are the SDK's", () => {
  expect(Object.fromEntries(CHAIN_IDS_BY_NAME)).toEqual(EVM_NETWORK_CHAIN_ID_MAP);
});

test("A preset fills everything but where to pay, and needs no rate", async () => {
  const { x402 } = await configOf(`${X402}${PRESET}`);
  expect(x402?.acceptedTokens).toEqual([
    {
      network: "eip155:8453",
      asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
      symbol: "USDC",
      decimals: 6,
      currency: "USD",
      payTo: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
      markupBps: 0,
      transferMethod: "eip3009",
      eip3009: { name: "USD Coin", version: "2" },
      confirmations: 1,
      requireOnchainConfirmation: false,
    },
  ]);
});

test("Keys beside a preset take precedence", async () => {
  const { x402 } = await configOf(`${X402}${PRESET}symbol = "USDC on Base"\nrate_per_native_unit = "3000"\n`);
  expect(x402?.acceptedTokens[0]).toMatchObject({
    symbol: "USDC on Base",
    rate: { kind: "fixed", ratePerNativeUnit: "3000" },
  });
});

test("Two spellings of a token are the same token", async () => {
  const caip2 = PRESET.replace('"base"', '"eip155:8453"');
  const [mistake] = await mistakesOf(`${X402}${PRESET}${caip2}`);
  expect(mistake?.message).toMatch(/same token as x402.accepted_tokens\[0\]/);
});

testMistakes([
  {
    promise: "An unknown preset is a mistake that lists those of the network",
    toml: `${X402}${PRESET.replace('"USDC"', '"USDT" #!').replace("base", "celo").replace("USDT", "USDX")}`,
    keyPath: "x402.accepted_tokens[0].token",
    message: /is "USDX", which .* on celo; expected "USDC" or "USDT" or "USAT", .*; did you mean "USDC"\?/,
    suggestion: "USDC",
  },
  {
    promise: "A preset on a network without one is a mistake that lists all",
    toml: `${X402}${PRESET.replace('"USDC"', '"USDC" #!').replace("base", "sepolia")}`,
    keyPath: "x402.accepted_tokens[0].token",
    message: /"USDC" on base, "USDC" on base-sepolia, .*"USAT" on celo/,
  },
  {
    promise: "Another address than the preset's is a mistake",
    toml: `${X402}${PRESET}asset = "0x036CbD53842c5426634e7929541eC2318f3dCF7e" #!`,
    keyPath: "x402.accepted_tokens[0].asset",
    message: /is 0x036C.*, which differs from that of token "USDC", 0x833589f/,
  },
  {
    promise: "A token without a preset needs its address",
    toml: `${X402}[[x402.accepted_tokens]] #!\nnetwork = "base"\npay_to = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"\nsymbol = "X"\ndecimals = 6\nrate_per_native_unit = "1"\neip3009_name = "X"\neip3009_version = "1"\n`,
    keyPath: "x402.accepted_tokens[0].asset",
    message: /or a preset such as token = "USDC"/,
  },
  {
    promise: "A network that has no name is a mistake",
    toml: `${X402}${PRESET.replace('"base"', '"bass" #!')}`,
    keyPath: "x402.accepted_tokens[0].network",
    message: /^is "bass"; expected .* or its name such as "base"; did you mean "base"\?/,
    suggestion: "base",
  },
]);
