import { privateKeyToAccount } from "viem/accounts";
import { expect, test } from "vitest";
import { channelsTable } from "../../../src/parts/channels/config.ts";
import { configOf, TOKEN, X402 } from "../../config/config-folder.ts";
import { testMistakes } from "../../config/mistake-cases.ts";

const KEY = `0x${"02".repeat(32)}` as const;
const USD_TOKEN = `${TOKEN}currency = "USD"\nrpc_url = "http://127.0.0.1:1"\n`;
const GATEWAY = `service_id = 1\n${X402}${USD_TOKEN}`;
const channels = (keys = "") => `[x402.channels]\nauthorizer = { private_key = "${KEY}" }\n${keys}`;

testMistakes([
  {
    promise: "A withdrawal takes longer than the longest job, twice",
    toml: `${GATEWAY}${channels("withdraw_delay_secs = 1_000 #!\nclaim_every_secs = 60\n")}[[jobs]]\njob_index = 0\nmax_run_secs = 300\n`,
    keyPath: "x402.channels.withdraw_delay_secs",
    message: /is 1000; expected at least 1200/,
  },
  {
    promise: "A withdrawal takes longer than four times the time between two claims",
    toml: `${GATEWAY}${channels("withdraw_delay_secs = 86_400 #!\nclaim_every_secs = 21_601\n")}`,
    keyPath: "x402.channels.withdraw_delay_secs",
    message: /is 86400; expected at least 86404/,
  },
  {
    promise: "Channels need a token whose deposits the chain shows",
    toml: `service_id = 1\n${X402}${TOKEN}${channels().replace("[x402.channels]", "[x402.channels] #!")}`,
    keyPath: "x402.channels",
    message:
      /has no token to work with; expected an accepted token that is paid by EIP-3009 or Permit2 and has rpc_url/,
  },
  {
    promise: "Claims are made at a price in dollars",
    toml: `${GATEWAY}${channels('claim_at = "5" #!\n')}`,
    keyPath: "x402.channels.claim_at",
    message: /expected dollars above 0/,
    suggestion: "$5",
  },
  {
    promise: "A sum above claim_at is not too small to be claimed",
    toml: `${GATEWAY}${channels('claim_at = "$1"\nmin_claim = "$1.01" #!\n')}`,
    keyPath: "x402.channels.min_claim",
    message: /is above claim_at; expected at most claim_at/,
  },
  {
    promise: "Each authorizer has another key",
    toml: `${GATEWAY}[x402.channels]\nauthorizer = [{ private_key = "${KEY}" }, { private_key = "${KEY}" }] #!\n`,
    keyPath: "x402.channels.authorizer[1]",
    message: /has the key of another signer; expected each key once/,
  },
]);

test("Offers have the first of several authorizers", async () => {
  const keys = [KEY, `0x${"03".repeat(32)}` as const] as const;
  const list = keys.map((key) => `{ private_key = "${key}" }`).join(", ");
  const config = await configOf(`${GATEWAY}[x402.channels]\nauthorizer = [${list}]\n`);
  expect(channelsTable.in(config)?.authorizers.map(({ privateKey }) => privateKey)).toEqual(keys);
  const offered = config.x402?.acceptedTokens[1]?.offered?.extraFor(1n);
  expect(offered).toMatchObject({ receiverAuthorizer: privateKeyToAccount(keys[0]).address });
});

test("A token is offered for channels beside its own offer, and stays as it was without the table", async () => {
  const config = await configOf(`${GATEWAY}${channels()}`);
  expect(channelsTable.in(config)).toMatchObject({
    withdrawDelaySecs: 86_400,
    minDeposit: 10,
    claimEverySecs: 3_600,
  });
  const [exact, channel, ...more] = config.x402?.acceptedTokens ?? [];
  expect(more).toEqual([]);
  expect(exact).not.toHaveProperty("offered");
  expect(channel).toMatchObject({
    asset: exact?.asset,
    transferMethod: "channel",
    offered: { scheme: "batch-settlement" },
  });
  expect(channel?.offered?.extraFor(1_000n)).toMatchObject({ withdrawDelay: 86_400, minDeposit: "10000" });
  expect((await configOf(GATEWAY)).x402?.acceptedTokens).toHaveLength(1);
});

test("A token by Permit2 is offered for channels with its own method of deposits, and a token that is listed for both methods once, by EIP-3009", async () => {
  const permit2 = USD_TOKEN.replace('"eip3009"', '"permit2"');
  const methods = async (tokens: string) => {
    const { x402 } = await configOf(`service_id = 1\n${X402}${tokens}${channels()}`);
    return (x402?.acceptedTokens ?? []).flatMap(
      ({ offered }) => offered?.extraFor(1n).assetTransferMethod ?? [],
    );
  };
  expect(await methods(permit2)).toEqual(["permit2"]);
  expect(await methods(permit2 + USD_TOKEN)).toEqual(["eip3009"]);
  const elsewhere = USD_TOKEN.replace(/pay_to = .*/, `pay_to = "0x${"9".repeat(40)}"`);
  expect(await methods(permit2 + elsewhere)).toEqual(["permit2", "eip3009"]);
});
