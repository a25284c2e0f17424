import type { Address } from "@solana/kit";
import { expect, it } from "vitest";
import type { X402Config } from "../../../src/config/config.ts";
import { checkTokens } from "../../../src/parts/solana/online-check.ts";
import {
  SOLANA_NETWORK,
  solanaAccount,
  TOKEN_2022_PROGRAM,
  tokenAccountOf,
} from "../../helpers/solana-cluster.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startSolanaParts } from "./harness.ts";

const parts = startBeforeAll(startSolanaParts);

/** Checks one token, after a token of an EVM chain. */
async function check(change: Readonly<Record<string, unknown>> = {}) {
  const { mint, seller, cluster } = parts;
  const own = { network: SOLANA_NETWORK, asset: mint, decimals: 6, payTo: seller, rpcUrl: cluster.rpcUrl };
  const acceptedTokens = [{ transferMethod: "eip3009" }, { ...own, transferMethod: "solana", ...change }];
  const { problems } = await checkTokens({ acceptedTokens } as unknown as X402Config);
  return problems.map(({ path, message }) => `${path.slice(2).join(".")} ${message}`);
}

it("A token whose seller has an account for it has no problem", async () => {
  expect(await check()).toEqual([]);
});

it("A seller without an account for the token is a problem, which names the account", async () => {
  const { address } = await solanaAccount(9);
  const account = await tokenAccountOf(address, parts.mint);
  expect(await check({ payTo: address })).toEqual([
    `1.pay_to has no account for the token (${account}), so that no client can pay; expected one`,
  ]);
});

it("A seller's token account that belongs to another owner is a problem, which names both", async () => {
  const [{ address }, { address: stranger }] = [await solanaAccount(19), await solanaAccount(20)];
  const account = await tokenAccountOf(address, parts.mint);
  await parts.cluster.fund(stranger, parts.mint, 0n, account);
  const [found] = await check({ payTo: address });
  expect(found).toContain(
    `1.pay_to has an account for the token (${account}) that belongs to ${stranger} now`,
  );
});

it("A mint of Token-2022 is a problem, whatever it does", async () => {
  const asset = await parts.cluster.createMint({ program: TOKEN_2022_PROGRAM });
  expect((await check({ asset }))[0]).toContain(`1.asset belongs to the program ${TOKEN_2022_PROGRAM}`);
});

it("An account for a token in place of its mint is a problem", async () => {
  const asset = await tokenAccountOf(parts.seller, parts.mint);
  expect((await check({ asset }))[0]).toContain("1.asset is an account for a token on");
});

it.each<[string, () => Readonly<Record<string, unknown>>, string]>([
  [
    "Another cluster",
    () => ({ network: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp" }),
    `1.rpc_url is of ${SOLANA_NETWORK}`,
  ],
  ["A mint that is none", () => ({ asset: parts.seller as Address }), "1.asset does not exist"],
  ["Other decimals", () => ({ decimals: 9 }), "1.decimals is 9; expected 6, as the mint says"],
  [
    "An RPC that does not answer",
    () => ({ rpcUrl: "http://127.0.0.1:1" }),
    "1.rpc_url does not answer as an RPC of Solana",
  ],
])("%s is a problem", async (_, change, problem) => {
  const [found = ""] = await check(change());
  expect(found).toContain(problem);
});
