import { getBase58Decoder } from "@solana/kit";
import { expect, test } from "vitest";
import { refundsTable } from "../../../src/parts/refunds/config.ts";
import { configOf, TOKEN, X402 } from "../../config/config-folder.ts";
import { testMistakes } from "../../config/mistake-cases.ts";

const USD_TOKEN = `${TOKEN}currency = "USD"\n`;
const GATEWAY = `service_id = 1\n${X402}${USD_TOKEN}`;
const METERED = GATEWAY.replace(
  'transfer_method = "eip3009"',
  'transfer_method = "permit2"\nrpc_url = "http://127.0.0.1:1"',
);
const job = (keys: string, index = 0) => `[[jobs]]\njob_index = ${index}\n${keys}\n`;

const REFUNDS = `[x402.refunds]\nsigner = { private_key = "0x${"01".repeat(32)}" }\n`;

testMistakes([
  {
    promise: "A refund needs an account that it is sent from, also when the operator is asked",
    toml: `${GATEWAY.replace("[x402]", "[x402] #!")}rpc_url = "http://127.0.0.1:1"\n${job('on_failure = "ask"')}`,
    keyPath: "x402.refunds",
    message: /expected the table with the account that refunds are sent from/,
  },
  {
    promise: "A job that is charged after it ran has nothing to refund",
    toml: `${METERED}${job('on_failure = "refund" #!\ncharge = "used"')}[x402.refunds]\nsigner = { private_key = "0x${"01".repeat(32)}" }`,
    keyPath: "jobs[0].on_failure",
    message: /expected "before" in charge, or no on_failure/,
  },
  {
    promise: "A refund needs the RPC of every token that it may be paid back in",
    toml: `${GATEWAY.replace("[[x402.accepted_tokens]]", "[[x402.accepted_tokens]] #!")}${job('on_failure = "refund"')}
[x402.refunds]
signer = { private_key = "0x${"01".repeat(32)}" }`,
    keyPath: "x402.accepted_tokens[0].rpc_url",
    message: /expected the RPC to send refunds through, since jobs\[0\]\.on_failure is "refund"/,
  },
  {
    promise: "The account of a settler is a mistake",
    toml: `${X402.replace(/facilitator_url.*\n/, "")}${TOKEN}${REFUNDS.replace("}", "} #!")}[[x402.facilitators]]
local = true
signer = { private_key = "0x${"01".repeat(32)}" }
rpc_urls = { base-sepolia = "http://127.0.0.1:8545" }
`,
    keyPath: "x402.refunds.signer",
    message: /has the key of a settler in x402\.facilitators; expected an account of its own/,
  },
]);

const SOLANA_TOKEN = `[[x402.accepted_tokens]]
token = "USDC"
network = "solana-devnet"
pay_to = "9kXF1MqWfXSTJwQmtWJHqGhtCvUiPwEkgZSUBYY4qVpc"
rpc_url = "http://127.0.0.1:1"
`;
const SOLD_ON_SOLANA = `service_id = 1\n${X402}${SOLANA_TOKEN}${job('price = "$0.01"\non_failure = "refund"')}`;

testMistakes([
  {
    promise: "A refund on a network that is not an EVM chain needs the key of an account there",
    toml: `${SOLD_ON_SOLANA}${REFUNDS.replace("]", "] #!")}`,
    keyPath: "x402.refunds.accounts",
    message:
      /has no key for solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1; expected a key of Solana.*, since jobs\[0\]\.on_failure is "refund"/,
  },
  {
    promise: "A key that is not of the network is a mistake",
    toml: `${SOLD_ON_SOLANA}[x402.refunds]\naccounts = { solana-devnet = "hunter2" } #!\n`,
    keyPath: "x402.refunds.accounts.solana-devnet",
    message: /is no such key, with 7 characters; expected a key of Solana/,
  },
  {
    promise: "An EVM chain has its key in signer",
    toml: `${SOLD_ON_SOLANA}[x402.refunds]\naccounts = { base = "hunter2" } #!\n`,
    keyPath: "x402.refunds.accounts.base",
    message: /is an EVM chain; expected its key in signer/,
  },
  {
    promise: "Refunds of tokens on EVM chains need the key of an account there",
    toml: `${GATEWAY}${SOLANA_TOKEN}[x402.refunds] #!\naccounts = {}\n`,
    keyPath: "x402.refunds.signer",
    message: /is missing; expected the key of the account on EVM chains/,
  },
]);

test("A gateway that sells on Solana alone needs no account on EVM chains", async () => {
  const key = getBase58Decoder().decode(
    Buffer.from(
      "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
      "hex",
    ),
  );
  const config = await configOf(`${SOLD_ON_SOLANA}[x402.refunds]\naccounts = { solana-devnet = "${key}" }\n`);
  expect(refundsTable.in(config)).toMatchObject({
    signer: undefined,
    accounts: new Map([["solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", key]]),
  });
});

test("The core only knows that failed jobs are paid back", async () => {
  const config = await configOf(`${GATEWAY}${REFUNDS}`);
  expect(config.x402).toMatchObject({ paysBack: true, promises: [{ name: "refund" }, { name: "ask" }] });
  expect(config.x402).not.toHaveProperty("refunds");
  expect(refundsTable.in(config)).toEqual({
    signer: { privateKey: `0x${"01".repeat(32)}` },
    accounts: new Map(),
    maxFeePerGasWei: 10n ** 10n,
    minBalanceWei: 10n ** 15n,
  });
  expect((await configOf(GATEWAY)).x402).not.toHaveProperty("paysBack");
});
