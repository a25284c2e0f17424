import { getBase58Decoder } from "@solana/kit";
import { expect, test } from "vitest";
import { findLocal } from "../../../src/parts/local-facilitator/config.ts";
import { configOf, mistakesOf, TOKEN } from "../../config/config-folder.ts";
import { testMistakes } from "../../config/mistake-cases.ts";
import { solanaAccount, solanaKeyBytes } from "../../helpers/solana-cluster.ts";

const PUBLIC = '[x402]\npublic_url = "https://operator.example.com"\n';
const REMOTE = '[[x402.facilitators]]\nurl = "https://facilitator.example.com"\n';
const LOCAL = `[[x402.facilitators]]
local = true
signer = { private_key = "0x${"5e".repeat(32)}" }
rpc_urls = { base-sepolia = "http://127.0.0.1:8545" }
`;
/** File with these facilitators. */
const file = (facilitators: string) => `${PUBLIC}${facilitators}${TOKEN}`;
const at = (key: string) => `x402.facilitators[0]${key}`;

test("The local facilitator settles with the keys of its entry, and shows their defaults", async () => {
  const { x402, shown } = await configOf(file(`${REMOTE}${LOCAL}`));
  const local = findLocal(x402?.facilitators);
  expect(local).toEqual({
    kind: "in_process",
    name: "local",
    signers: [{ privateKey: `0x${"5e".repeat(32)}` }],
    chains: [{ network: "eip155:84532", rpcUrl: "http://127.0.0.1:8545/" }],
    maxFeePerGasWei: 10n ** 10n,
    minBalanceWei: 10n ** 15n,
  });
  expect(x402?.facilitators.indexOf(local as never)).toBe(1);
  expect(shown.x402).toHaveProperty("facilitators[1].max_fee_per_gas_gwei", "10");
  expect(shown.x402).not.toHaveProperty("facilitators[0].max_fee_per_gas_gwei");
});

test("A value of local that is wrong is the only mistake of its entry", async () => {
  const found = await mistakesOf(file(LOCAL.replace("true", '"yes"').replace(/rpc_urls.*/, "")));
  expect(found.map(({ place }) => place)).toEqual([
    expect.stringMatching(/ x402\.facilitators\[0\]\.local$/),
  ]);
});

/** An entry that settles on Solana, and no EVM chain. */
const SOLANA = `[[x402.facilitators]]
local = true
fee_payers = { solana = "KEY" }
rpc_urls = { solana = "http://127.0.0.1:8899" }
`;
const SOLANA_TOKEN = `[[x402.accepted_tokens]]
network = "solana"
token = "USDC"
pay_to = "9kXF1MqWfXSTJwQmtWJHqGhtCvUiPwEkgZSUBYY4qVpc"
rpc_url = "http://127.0.0.1:8899"
`;
const SOLANA_KEY = await solanaKeyBytes(1);
const solana = (key: string) => `${PUBLIC}${SOLANA.replace("KEY", key)}${SOLANA_TOKEN}`;

test.each([
  ["as solana-keygen writes it", `[${[...SOLANA_KEY].join(", ")}]`],
  ["in base58", getBase58Decoder().decode(SOLANA_KEY)],
])(
  "The local facilitator takes a key of Solana %s, needs no EVM key, and shows the account",
  async (_, key) => {
    const { x402, shown } = await configOf(solana(key));
    expect(findLocal(x402?.facilitators)).toMatchObject({
      signers: [],
      chains: [
        {
          network: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
          rpcUrl: "http://127.0.0.1:8899/",
          feePayer: key,
        },
      ],
    });
    const { address } = await solanaAccount(1);
    expect(shown.x402).toHaveProperty("facilitators[0].fee_payers.solana", `account ${address}`);
  },
);

test("The local facilitator settles on EVM chains and on Solana in one entry", async () => {
  const both = LOCAL.replace(/rpc_urls = \{ (.*) \}/, 'rpc_urls = { $1, solana = "http://127.0.0.1:8899" }');
  const { x402 } = await configOf(
    file(`${both}fee_payers = { solana = "${getBase58Decoder().decode(SOLANA_KEY)}" }\n`),
  );
  expect(findLocal(x402?.facilitators)).toMatchObject({
    signers: [{ privateKey: `0x${"5e".repeat(32)}` }],
    chains: [{ network: "eip155:84532" }, { network: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp" }],
  });
});

testMistakes([
  {
    promise: "A key of Solana of another form is a mistake",
    toml: solana("hunter2").replace(/(fee_payers.*)/, "$1 #!"),
    keyPath: at(".fee_payers.solana"),
    message: /is no such key, with 7 characters; expected a key of Solana: 64 bytes in base58/,
  },
  {
    promise: "A key of Solana that was cut is a mistake",
    toml: solana("[1,2,3]").replace(/(fee_payers.*)/, "$1 #!"),
    keyPath: at(".fee_payers.solana"),
    message: /is a JSON array of 3 values; expected 64 numbers/,
  },
  {
    promise: "An RPC of Solana without a key is a mistake",
    toml: solana("")
      .replace(/fee_payers.*\n/, "")
      .replace("]]", "]] #!"),
    keyPath: at(".fee_payers.solana"),
    message: /is missing; expected a key of Solana/,
  },
  {
    promise: "A key of Solana for a network without an RPC is a mistake",
    toml: file(`${LOCAL}fee_payers = { solana = "${getBase58Decoder().decode(SOLANA_KEY)}" } #!\n`),
    keyPath: at(".fee_payers.solana"),
    message: /is a network without an RPC; expected it in rpc_urls/,
  },
  {
    promise: "A key for an EVM chain among those of other networks is a mistake",
    toml: file(`${LOCAL}fee_payers = { base-sepolia = "hunter2" } #!\n`),
    keyPath: at(".fee_payers.base-sepolia"),
    message: /is an EVM chain; expected its key in signer/,
  },
  {
    promise: "An entry that is neither remote nor local is a mistake",
    toml: file("[[x402.facilitators]] #!\n"),
    keyPath: at(".url"),
    message: /is missing; expected it, or local = true/,
  },
  {
    promise: "A signer of a remote facilitator is a mistake",
    toml: file(`${REMOTE}signer = { private_key = "hunter2" } #!\n`),
    keyPath: at(".signer"),
    message: /expected local = true beside it/,
  },
  {
    promise: "A URL of the local facilitator is a mistake",
    toml: file(`${LOCAL}url = "https://a.example" #!\n`),
    keyPath: at(".url"),
    message: /no such key beside local = true/,
  },
  {
    promise: "jobgate as facilitator without a key is a mistake",
    toml: file(LOCAL.replace(/signer = .*\n/, "").replace("]]", "]] #!")),
    keyPath: at(".signer"),
    message: /key that signs transactions/,
  },
  {
    promise: "A private key that is too short is a mistake",
    toml: file(LOCAL.replace(/private_key = .*/, 'private_key = "0xhunter2" } #!')),
    keyPath: at(".signer.private_key"),
    message: /64 hex digits/,
  },
  {
    promise: "A private key that is too short is a mistake in a list too",
    toml: file(LOCAL.replace(/signer = .*/, 'signer = [{ private_key = "0xhunter2" }] #!')),
    keyPath: at(".signer[0].private_key"),
    message: /64 hex digits/,
  },
  {
    promise: "jobgate as facilitator without a chain is a mistake",
    toml: file(LOCAL.replace(/rpc_urls = .*/, "rpc_urls = {} #!")),
    keyPath: at(".rpc_urls"),
    message: /RPC of each network/,
  },
  {
    promise: "Two RPCs for one network are a mistake",
    toml: file(
      LOCAL.replace(" }\n[[", " }\n[[").replace(/ \}\n$/, ', "eip155:84532" = "http://127.0.0.1:1" } #!\n'),
    ),
    keyPath: `${at(".rpc_urls")}."eip155:84532"`,
    message: /same network as base-sepolia/,
  },
  {
    promise: "An RPC of an unknown network is a mistake",
    toml: file(LOCAL.replace(/base-sepolia = (.*)/, "sepoliah = $1 #!")),
    keyPath: at(".rpc_urls.sepoliah"),
    message: /not a valid key; expected .*a CAIP-2 EVM network.*; did you mean "sepolia"\?/,
    suggestion: "sepolia",
  },
  {
    promise: "A fee ceiling of zero is a mistake",
    toml: file(`${LOCAL}max_fee_per_gas_gwei = "0" #!\n`),
    keyPath: at(".max_fee_per_gas_gwei"),
    message: /an amount of gwei above 0 as a string, with at most 9 decimal places/,
  },
  {
    promise: "A second local facilitator is a mistake",
    toml: file(`${LOCAL}${LOCAL.replace("]]", "]] #!")}`),
    keyPath: "x402.facilitators[1]",
    message: /same facilitator as x402.facilitators\[0\]/,
  },
  {
    promise: "A token on a network without an RPC of the local facilitator is a mistake",
    toml: file(LOCAL.replace("base-sepolia", "base")).replace(/(network = .*)/, "$1 #!"),
    keyPath: "x402.accepted_tokens[0].network",
    message: /none of x402.facilitators settles on/,
  },
]);
