import { pino } from "pino";
import { expect, it, onTestFinished } from "vitest";
import { ChainClient } from "../../../src/chain/chain-client.ts";
import type { ChannelsFacilitator } from "../../../src/parts/channels/channels-facilitator.ts";
import { NetworkChannels } from "../../../src/parts/channels/network-channels.ts";
import type { SeenChannel } from "../../../src/parts/channels/store/chain-rules.ts";
import type { ChannelLedger } from "../../../src/parts/channels/store/ledger.ts";
import type { ChannelRow } from "../../../src/parts/channels/store/row.ts";
import { newChannel } from "../../../src/parts/channels/store/rules.ts";
import { channelClient } from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { channelOf, DEPOSIT, KEPT, newPayer, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() => startChannelShop(parts));

it("The chain is read for a channel of which only an operator says that its first deposit was made", async () => {
  const { anvil, usdc } = parts;
  const { fetch } = channelClient({ anvil, payer: await newPayer(parts) });
  const channel_id = channelOf(await shop.buy(fetch, "bought", KEPT));
  const network = `eip155:${anvil.chainId}`;
  const token = { network, asset: usdc.address, symbol: "USDC", decimals: 6 };
  const opened = { ...token, channel_id, config: "{}", signed: "0", signature: "0x" };
  const closed: ChannelRow = { ...newChannel(opened, 0), deposits: 1 };
  const seen: SeenChannel[] = [];
  const ledger: Partial<ChannelLedger> = {
    listChannels: async () => [closed],
    listUncounted: async () => [],
    listRefunding: async () => [],
    listDueChannels: async () => [],
    async seeChannel(_, chain) {
      seen.push(chain);
      return closed;
    },
  };
  const channels = new NetworkChannels({
    ...{ network, owner: "this test", tokens: () => [], logger: pino({ level: "silent" }) },
    config: {
      claimAt: { unit: "usd", amount: 1n },
      minClaim: undefined,
      claimEverySecs: 1,
      withdrawDelaySecs: 900,
    },
    ledger: ledger as ChannelLedger,
    locks: { holdLock: async () => true },
    facilitator: {} as ChannelsFacilitator,
    client: new ChainClient({ rpcUrl: anvil.rpcUrl, timeoutMs: 5_000, chainId: anvil.chainId }),
    periods: { roundMs: 10, watchMs: 10, retryMs: 10 },
  });
  await channels.start();
  onTestFinished(() => channels.stop());
  await until(() => seen.length > 0);
  expect(seen[0]).toMatchObject({ balance: String(DEPOSIT) });
});
