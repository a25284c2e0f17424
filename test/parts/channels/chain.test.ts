import { expect, it } from "vitest";
import { ChainClient } from "../../../src/chain/chain-client.ts";
import { type Rpc, RpcError } from "../../../src/chain/rpc.ts";
import { readChannels } from "../../../src/parts/channels/chain.ts";
import { channelClient } from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { channelOf, DEPOSIT, newPayer, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() => startChannelShop(parts, { keys: "claim_every_secs = 3600" }));
const NONE = `0x${"0".repeat(63)}1`;
const EMPTY = { balance: "0", totalClaimed: "0", refundNonce: "0", withdrawAt: 0 };

async function connect(): Promise<{ rpc: Rpc; calls: () => number }> {
  const { rpcUrl, chainId } = parts.anvil;
  const rpc = await new ChainClient({ rpcUrl, timeoutMs: 5_000, chainId }).connect();
  const call = rpc.call.bind(rpc);
  let calls = 0;
  rpc.call = (...input) => {
    calls++;
    return call(...input);
  };
  return { rpc, calls: () => calls };
}

it("Channels are read together, 100 with one call, and one after the other where the RPC does not take that", async () => {
  const { fetch } = channelClient({ anvil: parts.anvil, payer: await newPayer(parts) });
  const id = channelOf(await shop.buy(fetch, "one"));
  const { rpc, calls } = await connect();
  const ids = [...Array.from({ length: 149 }, () => NONE), id];
  const expected = [...Array.from({ length: 149 }, () => EMPTY), { ...EMPTY, balance: String(DEPOSIT) }];
  expect(await readChannels(rpc, ids, "latest")).toEqual(expected);
  expect(calls()).toBe(2);

  const { rpc: strict, calls: each } = await connect();
  const ask = strict.call;
  strict.call = (method, params) =>
    (params[0] as { to?: string }).to === undefined
      ? Promise.reject(new RpcError(-32_602, "missing to"))
      : ask(method, params);
  expect(await readChannels(strict, [NONE, id], "latest")).toEqual(expected.slice(-2));
  expect(each()).toBe(6);
});

it("Channels at a block before their contract's are not read as empty", async () => {
  const { rpc } = await connect();
  await expect(readChannels(rpc, [NONE, NONE], 0n)).rejects.toThrow();
});
