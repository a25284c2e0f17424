import { expect, it, onTestFinished, vi } from "vitest";
import { runHere } from "../../commands/operator-commands.ts";
import { channelClient, readChannels } from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { channelOf, DEPOSIT, KEPT, newPayer, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() => startChannelShop(parts, { keys: "claim_every_secs = 3600" }));

it("The operator has a channel claimed and paid back before its time, on the chain", async () => {
  const payer = await newPayer(parts);
  const { anvil, usdc } = parts;
  const before = await usdc.balanceOf(payer.address);
  const { fetch } = channelClient({ anvil, payer });
  const id = channelOf(await shop.buy(fetch, "one", KEPT));
  await shop.buy(fetch, "two", KEPT);
  await until(() => shop.runner.calls.length === 2);
  vi.stubEnv("JOBGATE_OPERATOR_TOKEN", "");
  onTestFinished(() => void vi.unstubAllEnvs());
  const operator = (...args: string[]) =>
    runHere("channels", ...args, "--note", "as agreed", "--target", shop.jobgate.operatorUrl);

  await until(async () => (await operator("claim", id)).stdout === "claiming 1 channel\n");
  await until(async () => (await readChannels(anvil, "channels", id))[1] === 2n * PRICE);
  expect(await readChannels(anvil, "channels", id)).toEqual([DEPOSIT, 2n * PRICE]);

  expect(await operator("refund", id)).toMatchObject({ code: 0 });
  await until(async () => (await usdc.balanceOf(payer.address)) === before - 2n * PRICE);
  expect(await readChannels(anvil, "channels", id)).toEqual([2n * PRICE, 2n * PRICE]);
});
