import { BatchSettlementEvmScheme } from "@x402/evm/batch-settlement/client";
import { wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { type Address, encodeFunctionData, type Hex, parseAbi } from "viem";
import type { TestAccount } from "./accounts.ts";
import { type Anvil, sendTransaction } from "./anvil.ts";
import { compileSolidity } from "./solidity.ts";

/** Addresses of x402's contracts for channels, on every chain. */
const CONTRACTS = {
  BatchSettlement: "0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003",
  Erc3009DepositCollector: "0x4020806089470a89826cB9fB1f4059150b550004",
  Permit2DepositCollector: "0x4020425FAf3B746C082C2f942b4E5159887B0005",
} as const;

/** Address of the contract that holds the deposits of channels. */
const CHANNELS_ADDRESS: Address = CONTRACTS.BatchSettlement;

/** Fields that open a channel, and identify it. */
export interface ChannelConfig {
  readonly payer: Address;
  readonly payerAuthorizer: Address;
  readonly receiver: Address;
  readonly receiverAuthorizer: Address;
  readonly token: Address;
  readonly withdrawDelay: number;
  readonly salt: Hex;
}

const CONFIG =
  "struct Config { address payer; address payerAuthorizer; address receiver; address receiverAuthorizer; address token; uint40 withdrawDelay; bytes32 salt; }";

const channelsAbi = parseAbi([
  CONFIG,
  "function channels(bytes32 channelId) view returns (uint128 balance, uint128 totalClaimed)",
  "function receivers(address receiver, address token) view returns (uint128 totalClaimed, uint128 totalSettled)",
  "function pendingWithdrawals(bytes32 channelId) view returns (uint128 amount, uint40 initiatedAt)",
  "function refundNonce(bytes32 channelId) view returns (uint256)",
  "function getChannelId(Config config) view returns (bytes32)",
  "function getVoucherDigest(bytes32 channelId, uint128 maxClaimableAmount) view returns (bytes32)",
  "function initiateWithdraw(Config config, uint128 amount)",
  "function finalizeWithdraw(Config config)",
]);

/** Puts contracts with the interface of x402's contracts for channels at their addresses. */
export async function installChannels({ client }: Pick<Anvil, "client">): Promise<void> {
  const compiled = await compileSolidity("BatchSettlement.sol");
  for (const [name, address] of Object.entries(CONTRACTS)) {
    // The creation code returns the contract's code.
    const { data: bytecode } = await client.call({ data: compiled[name] as Hex });
    if (bytecode === undefined) throw new Error(`anvil did not run the creation code of ${name}`);
    await client.setCode({ address, bytecode });
  }
}

/** Reads a view of the contract. */
export async function readChannels<Name extends "channels" | "receivers" | "refundNonce">(
  { client }: Pick<Anvil, "client">,
  functionName: Name,
  ...args: readonly unknown[]
) {
  return client.readContract({
    address: CHANNELS_ADDRESS,
    abi: channelsAbi,
    functionName,
    args,
  } as never) as Promise<Name extends "refundNonce" ? bigint : readonly [bigint, bigint]>;
}

/** Starts the withdrawal of an amount, which waits for the channel's delay. */
export async function initiateWithdraw(options: {
  readonly anvil: Anvil;
  readonly payer: TestAccount;
  readonly config: ChannelConfig;
  readonly amount: bigint;
}): Promise<void> {
  const { anvil, payer, config, amount } = options;
  const data = encodeFunctionData({
    abi: channelsAbi,
    functionName: "initiateWithdraw",
    args: [config, amount],
  });
  await sendTransaction({ anvil, from: payer, to: CHANNELS_ADDRESS, data });
}

/** Ends a withdrawal whose delay has passed. Throws if it has not. */
export async function finalizeWithdraw(options: {
  readonly anvil: Anvil;
  readonly payer: TestAccount;
  readonly config: ChannelConfig;
}): Promise<void> {
  const { anvil, payer, config } = options;
  const data = encodeFunctionData({ abi: channelsAbi, functionName: "finalizeWithdraw", args: [config] });
  await sendTransaction({ anvil, from: payer, to: CHANNELS_ADDRESS, data });
}

/** The official client of one payer's channels, and its `fetch`, which pays when it is answered 402. */
export function channelClient(options: {
  readonly anvil: Anvil;
  readonly payer: TestAccount;
  /** Signs the vouchers. Default: the payer. */
  readonly voucherSigner?: TestAccount;
  /** The client reads the channel on the chain, to recover its state. Default: true. */
  readonly readsChain?: boolean;
  /** Makes each single request, the one without and the one with the payment. Default: the global one. */
  readonly fetch?: typeof globalThis.fetch;
}): { readonly scheme: BatchSettlementEvmScheme; readonly fetch: typeof globalThis.fetch } {
  const { anvil, payer, voucherSigner, readsChain = true } = options;
  const readContract = anvil.client.readContract.bind(anvil.client);
  const signer = { ...payer, ...(readsChain && { readContract }) } as unknown as ConstructorParameters<
    typeof BatchSettlementEvmScheme
  >[0];
  const scheme = new BatchSettlementEvmScheme(signer, { ...(voucherSigner && { voucherSigner }) });
  const fetch = wrapFetchWithPaymentFromConfig(options.fetch ?? globalThis.fetch, {
    schemes: [{ network: `eip155:${anvil.chainId}`, client: scheme }],
    spendControls: false,
  });
  return { scheme, fetch };
}
