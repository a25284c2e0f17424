import { findDefaultAsset } from "@x402/svm";
import { expect, test } from "vitest";
import { solanaTokens } from "../../../src/parts/solana/config.ts";
import { configOf, loadFiles, X402 } from "../../config/config-folder.ts";

const OWNER = "9kXF1MqWfXSTJwQmtWJHqGhtCvUiPwEkgZSUBYY4qVpc";
const token = (
  keys: Readonly<Record<string, string | number | boolean | readonly string[]>> = {},
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
      commitment: "confirmed",
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
  ["confirmations", token({ confirmations: 2 }), "expected it left out, or commitment"],
  [
    "the facilitator's word",
    token({ require_onchain_confirmation: false }),
    "only a block of the cluster counts",
  ],
  ["an unknown commitment", token({ commitment: "processed" }), 'expected "confirmed" or "finalized"'],
  [
    "two commitments for one token",
    `${token()}[[x402.accepted_tokens]]${token({ commitment: "finalized", jobs: ["a"] }).split("[[x402.accepted_tokens]]")[1]}`,
    "differs from the value in the token's other entry",
  ],
  [
    "a commitment on another network",
    token({ network: "base", pay_to: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", commitment: "confirmed" }),
    "is set for a token that is paid by EIP-3009; expected it left out, or a token paid by Solana",
  ],
  ["another method", token({ transfer_method: "eip3009" }), "does not pay on solana:"],
  [
    "an unknown symbol",
    token({ token: "USDD" }),
    'is "USDD", which is not a token that is known on solana; expected',
  ],
  [
    "no facilitator for it",
    `${token({ network: "solana-devnet" }).replace(/^facilitator_url = .*$/m, "")}
[[x402.facilitators]]
url = "http://127.0.0.1:1"
networks = ["base"]
`,
    "is solana-devnet, which none of x402.facilitators settles on",
  ],
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

test("A job that is charged after it ran needs another token, unless it runs for at most 20 s", async () => {
  const job = '[[jobs]]\njob_index = 0\nmode = "public_paid"\nprice = "$0.01"\n';
  for (const long of ["", "max_run_secs = 21\n"])
    expect(await mistakes(`${token()}${job}charge = "after"\n${long}`)).toContain(
      "which no accepted token can be paid by; expected max_run_secs of at most 20, because a payment in the token expires soon",
    );
  await configOf(`${token()}${job}charge = "after"\nmax_run_secs = 20\n`);
  await configOf(`${token()}${job}`);
});

const POLICY = `auth_mode = "payer_is_caller"
chain_rpc_url = "http://127.0.0.1:8545"
chain_contract = "0x0165878A594ca255338adfa4d48449f69242Eb8F"
`;
const NAMED = '[[jobs]]\njob_index = 0\nname = "chart"\nprice = "$0.01"\n';
const EVM_TOKEN = token({ network: "base", pay_to: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" }).slice(
  token().indexOf("[[x402.accepted_tokens]]"),
);

test.each([
  ["mode", `${NAMED}mode = "restricted_paid"\n${POLICY}`],
  [
    "invocation_mode",
    `${NAMED}[[x402.job_policies]]\nservice_id = 1\njob_index = 0\ninvocation_mode = "restricted_paid"\n${POLICY}`,
  ],
])("A restricted job needs a token on an EVM chain that it is sold in: %s", async (key, job) => {
  const message =
    'is "restricted_paid", and a contract permits accounts of EVM chains alone; expected an accepted token on an EVM chain';
  const result = await loadFiles(`${token()}${job}`);
  expect(result).toMatchObject({ mistakes: [{ keyPath: expect.stringMatching(`${key}$`), message }] });
  expect(
    await mistakes(
      `${token()}${EVM_TOKEN}jobs = ["other"]\n${job}${NAMED.replace("chart", "other").replace("0", "1")}mode = "public_paid"\n`,
    ),
  ).toBe(message);
  await configOf(`${token()}${EVM_TOKEN}${job}`);
  await configOf(`${token()}${EVM_TOKEN}jobs = ["chart"]\n${job}`);
});
