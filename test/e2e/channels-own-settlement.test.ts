import { expect, it } from "vitest";
import { newAccount } from "../helpers/accounts.ts";
import { channelClient, readChannels } from "../helpers/channels.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import {
  channelOf,
  DEPOSIT,
  KEPT,
  newPayer,
  PRICE,
  startChannelParts,
  startChannelShop,
} from "../parts/channels/harness.ts";
import { localSettler } from "./local-facilitator.ts";

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(async () => {
  const { edit } = await localSettler({ anvil: parts.anvil });
  return startChannelShop(parts, { edit });
});

it("Without a remote facilitator, jobgate sends deposits, claims, settlements and refunds of channels itself", async () => {
  const { anvil, usdc } = parts;
  const payer = await newPayer(parts);
  const before = await usdc.balanceOf(payer.address);
  const { fetch, scheme } = channelClient({ anvil, payer });
  const first = await shop.buy(fetch, "one", KEPT);
  expect(first).toMatchObject({ status: 202, settlement: { success: true, amount: String(DEPOSIT) } });
  expect(await shop.buy(fetch, "two", KEPT)).toMatchObject({ status: 202, settlement: { transaction: "" } });
  const id = channelOf(first);
  await until(async () => (await readChannels(anvil, "channels", id))[1] === 2n * PRICE);
  await until(async () => (await usdc.balanceOf(shop.payTo.address)) === 2n * PRICE);
  // A later claim is settled by another transaction.
  await shop.buy(fetch, "three", KEPT);
  await until(async () => (await usdc.balanceOf(shop.payTo.address)) === 3n * PRICE);
  expect(await scheme.refund(shop.urlOf(KEPT))).toMatchObject({ amount: String(DEPOSIT - 3n * PRICE) });
  expect(await usdc.balanceOf(payer.address)).toBe(before - 3n * PRICE);
  expect(shop.facilitator.calls).toEqual([]);
});

it("A deposit that the payer does not have is refused, and nothing is sold", async () => {
  const { fetch } = channelClient({ anvil: parts.anvil, payer: newAccount() });
  expect(await shop.buy(fetch, "poor", KEPT)).toMatchObject({
    status: 402,
    error: expect.stringMatching("insufficient"),
  });
  expect(shop.runner.calls.map(({ body }) => Buffer.from(body).toString())).not.toContain("poor");
});
