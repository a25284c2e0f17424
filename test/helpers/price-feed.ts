import { type Address, encodeAbiParameters, encodeFunctionData, parseAbi, parseAbiParameters } from "viem";
import { accounts } from "./accounts.ts";
import { type Anvil, sendTransaction } from "./anvil.ts";
import { compileSolidity } from "./solidity.ts";

const ABI = parseAbi([
  "function setRound(int256 newAnswer, uint256 newUpdatedAt)",
  "function setDecimals(uint8 newDecimals)",
  "function setReverts(bool newReverts)",
]);

/** A price feed on a chain. The test sets its rounds. */
export interface PriceFeed {
  readonly address: Address;
  /** @param updatedAtMs Unix milliseconds; default now */
  setRound(answer: bigint, updatedAtMs?: number): Promise<void>;
  setDecimals(decimals: number): Promise<void>;
  /** Makes reading the latest round revert, as for a feed without rounds. */
  setReverts(reverts: boolean): Promise<void>;
}

/** Deploys a feed of PriceFeed.sol, without any round yet. */
export async function deployPriceFeed(options: {
  readonly anvil: Anvil;
  readonly decimals: number;
}): Promise<PriceFeed> {
  const { anvil, decimals } = options;
  const { PriceFeed: code } = await compileSolidity("PriceFeed.sol");
  if (code === undefined) throw new Error("PriceFeed.sol holds no PriceFeed");
  const argument = encodeAbiParameters(parseAbiParameters("uint8 decimals"), [decimals]);
  const creation = { anvil, from: accounts.deployer, data: `${code}${argument.slice(2)}` as const };
  const { contractAddress: address } = await sendTransaction(creation);
  if (!address) throw new Error("PriceFeed was not deployed");

  const send = async (data: `0x${string}`): Promise<void> => {
    await sendTransaction({ anvil, from: accounts.deployer, to: address, data });
  };
  return {
    address,
    setRound: (answer, updatedAtMs = Date.now()) => {
      const updatedAt = BigInt(Math.floor(updatedAtMs / 1000));
      return send(encodeFunctionData({ abi: ABI, functionName: "setRound", args: [answer, updatedAt] }));
    },
    setDecimals: (places) =>
      send(encodeFunctionData({ abi: ABI, functionName: "setDecimals", args: [places] })),
    setReverts: (reverts) =>
      send(encodeFunctionData({ abi: ABI, functionName: "setReverts", args: [reverts] })),
  };
}
