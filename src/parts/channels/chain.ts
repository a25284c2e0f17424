import { decodeFunctionResult, encodeFunctionData, type Hex, parseAbi } from "viem";
import { asHex, isRefusal, type Rpc, toHex } from "../../chain/rpc.ts";
import { readHead } from "../../x402/settlement/block-view.ts";
import { channelsCode, channelsIn } from "./channels-code.ts";
import { CHANNELS_CONTRACT } from "./hashes.ts";
import type { ChannelState } from "./store/chain-rules.ts";

const abi = parseAbi([
  "function channels(bytes32 channelId) view returns (uint128 balance, uint128 totalClaimed)",
  "function receivers(address receiver, address token) view returns (uint128 totalClaimed, uint128 totalSettled)",
  "function pendingWithdrawals(bytes32 channelId) view returns (uint128 amount, uint40 initiatedAt)",
  "function refundNonce(bytes32 channelId) view returns (uint256)",
]);

/** Returns the newest block that has the confirmations. @throws Error when the RPC does not answer */
export async function confirmedBlock(rpc: Rpc, confirmations: number): Promise<bigint> {
  const block = (await readHead(rpc)) - BigInt(confirmations - 1);
  return block > 0n ? block : 0n;
}

/** Most channels that one `eth_call` reads, because nodes limit the size of its code. */
const TOGETHER = 100;

/** Reads channels at one block, many with one call. @returns their states in the order of the channels */
export async function readChannels(
  rpc: Rpc,
  channelIds: readonly string[],
  block: bigint | "latest",
): Promise<ChannelState[]> {
  const found: ChannelState[] = [];
  for (let at = 0; at < channelIds.length; at += TOGETHER) {
    const ids = channelIds.slice(at, at + TOGETHER);
    const together = ids.length === 1 ? undefined : await readTogether(rpc, ids, block);
    found.push(...(together ?? (await Promise.all(ids.map((id) => readChannel(rpc, id, block))))));
  }
  return found;
}

/** @returns undefined if the RPC cannot run code that the chain lacks */
async function readTogether(
  rpc: Rpc,
  channelIds: readonly string[],
  block: bigint | "latest",
): Promise<ChannelState[] | undefined> {
  const params = [{ data: channelsCode(channelIds) }, block === "latest" ? block : toHex(block)];
  const answer = await rpc.call("eth_call", params).catch((error: unknown) => {
    if (isRefusal(error)) return undefined;
    throw error;
  });
  return answer === undefined ? undefined : channelsIn(asHex(answer), channelIds.length);
}

async function readChannel(rpc: Rpc, channelId: string, block: bigint | "latest"): Promise<ChannelState> {
  const args = [channelId as Hex] as const;
  const [channel, withdrawal, nonce] = await Promise.all([
    call(rpc, { functionName: "channels", args }, block),
    call(rpc, { functionName: "pendingWithdrawals", args }, block),
    call(rpc, { functionName: "refundNonce", args }, block),
  ]);
  const [balance, totalClaimed] = channel as readonly [bigint, bigint];
  const [, initiatedAt] = withdrawal as readonly [bigint, number];
  return {
    balance: String(balance),
    totalClaimed: String(totalClaimed),
    refundNonce: String(nonce),
    withdrawAt: Number(initiatedAt),
  };
}

/** Returns the sum that was claimed for a receiver, and the part of the sum that has moved to the receiver. Token units. */
export async function readReceiver(
  rpc: Rpc,
  receiver: string,
  token: string,
): Promise<{ readonly claimed: bigint; readonly settled: bigint }> {
  const args = [receiver as Hex, token as Hex] as const;
  const sums = await call(rpc, { functionName: "receivers", args }, "latest");
  const [claimed, settled] = sums as readonly [bigint, bigint];
  return { claimed, settled };
}

async function call(
  rpc: Rpc,
  { functionName, args }: { readonly functionName: string; readonly args: readonly unknown[] },
  block: bigint | "latest",
): Promise<unknown> {
  const data = encodeFunctionData({ abi, functionName, args } as never);
  const answer = await rpc.callContract(CHANNELS_CONTRACT, data, block);
  return decodeFunctionResult({ abi, functionName, data: answer as Hex } as never);
}
