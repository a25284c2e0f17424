import { expect, it, onTestFinished, vi } from "vitest";
import { runHere } from "../../commands/operator-commands.ts";
import { accounts, newAccount } from "../../helpers/accounts.ts";
import {
  type ChannelConfig,
  channelClient,
  finalizeWithdraw,
  initiateWithdraw,
  readChannels,
} from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { channelOf, DEPOSIT, KEPT, newPayer, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() =>
  startChannelShop(parts, {
    keys: 'claim_every_secs = 1\nmin_claim = "$0.002"\nwithdraw_delay_secs = 900',
  }),
);

it("A sum below min_claim is not claimed, also while its payer withdraws, and is a loss in the books", async () => {
  const { anvil, usdc } = parts;
  // An account whose transactions the chain's node signs.
  const { otherPayer: payer } = accounts;
  await usdc.mint(payer.address, DEPOSIT);
  const small = channelClient({ anvil, payer, voucherSigner: newAccount() });
  const id = channelOf(await shop.buy(small.fetch, "one", KEPT));
  const config = shop.facilitator.calls.findLast(
    ({ paymentPayload }) => paymentPayload?.payload.type === "deposit",
  )?.paymentPayload?.payload.channelConfig as ChannelConfig;
  const other = channelClient({ anvil, payer: await newPayer(parts) });
  const otherId = channelOf(await shop.buy(other.fetch, "one", KEPT));
  await shop.buy(other.fetch, "two", KEPT);
  await until(async () => (await readChannels(anvil, "channels", otherId))[1] === 2n * PRICE);

  vi.stubEnv("JOBGATE_OPERATOR_TOKEN", "");
  onTestFinished(() => void vi.unstubAllEnvs());
  const operator = async (...args: string[]) =>
    (await runHere(...args, "--target", shop.jobgate.operatorUrl)).stdout;
  const show = async () =>
    JSON.parse(await operator("channels", "show", id, "--json")).channel as Record<string, string>;
  await initiateWithdraw({ anvil, payer, config, amount: DEPOSIT });
  await until(async () => (await show()).state === "CHANNEL_STATE_WITHDRAWING");
  await anvil.client.increaseTime({ seconds: config.withdrawDelay });
  await finalizeWithdraw({ anvil, payer, config });
  await until(async () => (await show()).state === "CHANNEL_STATE_OPEN");
  expect(await show()).toMatchObject({ final: String(PRICE), lost: String(PRICE) });
  expect(await readChannels(anvil, "channels", id)).toEqual([0n, 0n]);
  const lines = (
    await operator("payments", "export", "--from", "2020-01-01", "--to", "2100-01-01", "--format", "jsonl")
  )
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines.filter(({ kind }) => kind === "MOVEMENT_KIND_LOSS")).toMatchObject([
    { base_units: String(-PRICE), token: "USDC", account: shop.payTo.address.toLowerCase() },
  ]);
  const log = shop.jobgate.logs.filter((line) => line.includes("charges of a channel are lost"));
  expect(log.map((line) => JSON.parse(line))).toMatchObject([{ level: 30, lost: String(PRICE) }]);
});
