import { expect, test } from "vitest";
import { SOLANA_NETWORK } from "../../helpers/solana-cluster.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { PRICE, startSolanaParts, startSolanaShop } from "./harness.ts";

const parts = startBeforeAll(startSolanaParts);
const shop = startBeforeAll(() => startSolanaShop(parts));

const read = async (path: string) => JSON.stringify(await (await fetch(shop.jobgate.x402Url + path)).json());
const part = (fields: object) => JSON.stringify(fields).slice(1, -1);

test("The description and the list of jobs name the price in the token of Solana", async () => {
  const [network, amount] = [SOLANA_NETWORK, String(PRICE)];
  expect(await read("/openapi.json")).toContain(part({ amount, currency: parts.mint, network }));
  expect(await read("/x402/jobs")).toContain(part({ protocol: "x402", network, asset: parts.mint }));
});

test("The 402 names the owner as recipient, and not the account that holds the token", async () => {
  const { accepts } = await shop.offers();
  expect(accepts).toMatchObject([{ scheme: "exact", network: SOLANA_NETWORK, payTo: parts.seller }]);
});
