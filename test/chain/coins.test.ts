import * as chains from "viem/chains";
import { expect, test } from "vitest";
import { CHAIN_IDS_BY_COIN, coinOf } from "../../src/chain/coins.ts";

test("The coins are viem's, and a network without a known coin has native units", () => {
  const coins = [...CHAIN_IDS_BY_COIN].flatMap(([coin, ids]) => ids.map((id) => [id, coin]));
  const known = coins.map(([id]) => [
    id,
    Object.values(chains).find((chain) => chain.id === id)?.nativeCurrency.symbol,
  ]);
  expect(coins).toEqual(known);
  expect([coinOf("eip155:84532"), coinOf("eip155:31337")]).toEqual(["ETH", "native units"]);
});
