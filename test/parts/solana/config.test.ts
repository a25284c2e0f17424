import { findDefaultAsset } from "@x402/svm";
import { expect, test } from "vitest";
import { solanaTokens } from "../../../src/parts/solana/config.ts";
import { configOf, loadFiles, X402 } from "../../config/config-folder.ts";

const OWNER = "9kXF1MqWfXSTJwQmtWJHqGhtCvUiPwEkgZSUBYY4qVpc";
const token = (
  keys: Readonly<Record<string, string | number | boolean>> = {},
  without: readonly string[] = [],
) => {
  const all = { token: "USDC", network: "solana", pay_to: OWNER, rpc_url: "http://127.0.0.1:1", ...keys };
  const lines = Object.entries(all).filter(([key]) => !without.includes(key));
  return `service_id = 1\n${X402}[[x402.accepted_tokens]]\n${lines.map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`).join("")}`;
};

async function mistakes(toml: string): Promise<string> {
  const result = await loadFiles(toml);
  if (result.ok) throw new Error("the configuration has no mistake");
  return result.mistakes.map(({ message }) => String(message)).join("\n");
}

test("A token on Solana needs its network, its owner and an RPC", async () => {
  const { x402 } = await configOf(token());
  expect(x402?.acceptedTokens).toMatchObject([
    {
      network: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
      asset: "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
      symbol: "USDC",
      decimals: 6,
      currency: "USD",
      payTo: OWNER,
      transferMethod: "solana",
      requireOnchainConfirmation: true,
    },
  ]);
});

test("The presets are the default assets of the official library", () => {
  for (const { network, asset, decimals } of solanaTokens.presets ?? [])
    expect(findDefaultAsset(asset, network as never)).toMatchObject({ asset, decimals });
});

test.each([
  ["no RPC", token({}, ["rpc_url"]), "expected a JSON-RPC of the cluster"],
  ["an EVM owner", token({ pay_to: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" }), "no address on solana:"],
  ["confirmations", token({ confirmations: 2 }), "only a finalized block counts"],
  ["the facilitator's word", token({ require_onchain_confirmation: false }), "only a finalized block counts"],
  ["another method", token({ transfer_method: "eip3009" }), "does not pay on solana:"],
  ["an EIP-712 domain", token({ eip3009_name: "USDC", eip3009_version: "2" }), "no EIP-712 domain"],
])("A token on Solana with %s is a mistake", async (_, toml, message) => {
  expect(await mistakes(toml)).toContain(message);
});

test.each([
  ["an owner on Solana", token({ network: "base" }), "no address on eip155:8453"],
  [
    "its method",
    token({
      network: "base",
      pay_to: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
      transfer_method: "solana",
    }),
    "does not pay on eip155:8453",
  ],
])("A token on an EVM chain with %s is a mistake", async (_, toml, message) => {
  expect(await mistakes(toml)).toContain(message);
});

test("A job that is charged after it ran needs another token", async () => {
  const job = '[[jobs]]\njob_index = 0\nmode = "public_paid"\nprice = "$0.01"\n';
  expect(await mistakes(`${token()}${job}charge = "after"\n`)).toContain(
    "which no accepted token can be paid by",
  );
  await configOf(`${token()}${job}`);
});

test("A job whose buyers are paid back needs tokens on EVM chains", async () => {
  const job = '[[jobs]]\njob_index = 0\nmode = "public_paid"\nprice = "$0.01"\non_failure = "refund"\n';
  const refunds = `[refunds]\nprivate_key = "${`0x${"11".repeat(32)}`}"\n`;
  expect(await mistakes(`${token()}${job}${refunds}`)).toContain("where refunds cannot be sent");
});
