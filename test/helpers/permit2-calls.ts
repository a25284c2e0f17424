import { PERMIT2_ADDRESS, x402ExactPermit2ProxyABI, x402ExactPermit2ProxyAddress } from "@x402/evm";
import { type Address, encodeFunctionData, type Hex, parseAbi, parseGwei, parseSignature } from "viem";
import { accounts, type TestAccount } from "./accounts.ts";
import { type Anvil, MULTICALL3, sendTransaction } from "./anvil.ts";
import type { Permit2Payment } from "./clients.ts";
import type { Token } from "./usdc.ts";

const { payer, payTo } = accounts;

interface OnChain {
  readonly anvil: Anvil;
  readonly usdc: Token;
}

/** A call of a contract by another one. */
export interface ContractCall {
  readonly target: Address;
  readonly callData: Hex;
  /** Lets the transaction go on when the call reverts. */
  readonly allowFailure?: boolean;
}

const multicallAbi = parseAbi([
  "function aggregate3((address target, bool allowFailure, bytes callData)[] calls) payable",
]);
const tokenAbi = parseAbi([
  "function approve(address spender, uint256 amount) returns (bool)",
  "function transferFrom(address from, address to, uint256 amount) returns (bool)",
  "function nonces(address owner) view returns (uint256)",
]);
const permit2Abi = parseAbi([
  "function invalidateUnorderedNonces(uint256 word, uint256 mask)",
  "function permitTransferFrom(((address token, uint256 amount) permitted, uint256 nonce, uint256 deadline) permit, (address to, uint256 requestedAmount) details, address owner, bytes signature)",
]);

/** The direct call of the proxy, as a facilitator makes it. */
export function settleCall(payment: Permit2Payment): ContractCall {
  const abi = x402ExactPermit2ProxyABI;
  const callData = encodeFunctionData({ abi, functionName: "settle", args: settleArgs(payment) });
  return { target: x402ExactPermit2ProxyAddress, callData };
}

function settleArgs({ payload, permit: { permitted, nonce, deadline, from, witness } }: Permit2Payment) {
  return [
    {
      permitted: { token: permitted.token, amount: BigInt(permitted.amount) },
      nonce: BigInt(nonce),
      deadline: BigInt(deadline),
    },
    from,
    { to: witness.to, validAfter: BigInt(witness.validAfter) },
    (payload.payload as { signature: Hex }).signature,
  ] as const;
}

/** The call of the proxy for a payer who never approved Permit2: his EIP-2612 signature does it. */
export async function settleWithPermitCall(
  { anvil, usdc }: OnChain,
  payment: Permit2Payment,
): Promise<ContractCall> {
  const value = BigInt(payment.permit.permitted.amount);
  const deadline = 2n ** 256n - 1n;
  const { address, name, version } = usdc;
  const nonce = await anvil.client.readContract({
    address,
    abi: tokenAbi,
    functionName: "nonces",
    args: [payer.address],
  });
  const signature = await payer.signTypedData({
    domain: { name, version, chainId: anvil.chainId, verifyingContract: address },
    types: {
      Permit: ["owner", "spender", "value", "nonce", "deadline"].map((field) => ({
        name: field,
        type: ["owner", "spender"].includes(field) ? "address" : "uint256",
      })),
    },
    primaryType: "Permit",
    message: { owner: payer.address, spender: PERMIT2_ADDRESS, value, nonce, deadline },
  });
  const { r, s, yParity } = parseSignature(signature);
  const callData = encodeFunctionData({
    abi: x402ExactPermit2ProxyABI,
    functionName: "settleWithPermit",
    args: [{ value, deadline, r, s, v: 27 + yParity }, ...settleArgs(payment)],
  });
  return { target: x402ExactPermit2ProxyAddress, callData };
}

/** Makes several calls within one transaction. */
export function batchCall(calls: readonly ContractCall[]): ContractCall {
  const args = [calls.map((call) => ({ allowFailure: false, ...call }))] as const;
  return {
    target: MULTICALL3,
    callData: encodeFunctionData({ abi: multicallAbi, functionName: "aggregate3", args }),
  };
}

/** A transfer from the payer to the recipient without any authorization. */
export async function transferCall({ anvil, usdc }: OnChain, amount: bigint): Promise<ContractCall> {
  const approval = encodeFunctionData({ abi: tokenAbi, functionName: "approve", args: [MULTICALL3, amount] });
  await sendTransaction({ anvil, from: payer, to: usdc.address, data: approval });
  const args = [payer.address, payTo.address, amount] as const;
  return {
    target: usdc.address,
    callData: encodeFunctionData({ abi: tokenAbi, functionName: "transferFrom", args }),
  };
}

/** The payer's own call that cancels a nonce. */
export function cancelCall(nonce: string): ContractCall {
  const args = [BigInt(nonce) >> 8n, 1n << (BigInt(nonce) & 255n)] as const;
  const callData = encodeFunctionData({ abi: permit2Abi, functionName: "invalidateUnorderedNonces", args });
  return { target: PERMIT2_ADDRESS, callData };
}

/** The payer's own use of a nonce: a permit for another spender. */
export async function otherUseCall(
  { anvil, usdc }: OnChain,
  {
    nonce,
    spender,
    amount = 1n,
  }: { readonly nonce: string; readonly spender: Address; readonly amount?: bigint },
): Promise<ContractCall> {
  const permitted = { token: usdc.address, amount };
  const deadline = 2n ** 256n - 1n;
  const signature = await payer.signTypedData({
    domain: { name: "Permit2", chainId: anvil.chainId, verifyingContract: PERMIT2_ADDRESS },
    types: {
      PermitTransferFrom: [
        { name: "permitted", type: "TokenPermissions" },
        { name: "spender", type: "address" },
        { name: "nonce", type: "uint256" },
        { name: "deadline", type: "uint256" },
      ],
      TokenPermissions: [
        { name: "token", type: "address" },
        { name: "amount", type: "uint256" },
      ],
    },
    primaryType: "PermitTransferFrom",
    message: { permitted, spender, nonce: BigInt(nonce), deadline },
  });
  const args = [
    { permitted, nonce: BigInt(nonce), deadline },
    { to: payTo.address, requestedAmount: amount },
    payer.address,
    signature,
  ] as const;
  const callData = encodeFunctionData({ abi: permit2Abi, functionName: "permitTransferFrom", args });
  return { target: PERMIT2_ADDRESS, callData };
}

/** Mines these transactions in this order in one block. */
export async function inOneBlock(
  { client }: Anvil,
  transactions: readonly { readonly call: ContractCall; readonly from?: TestAccount }[],
): Promise<readonly Hex[]> {
  await client.setAutomine(false);
  try {
    const hashes: Hex[] = [];
    for (const [index, { call, from = accounts.stranger }] of transactions.entries()) {
      const fees = { maxPriorityFeePerGas: parseGwei(String(100 - index)), maxFeePerGas: parseGwei("200") };
      const { target: to, callData: data } = call;
      hashes.push(
        await client.sendTransaction({ account: from.address, to, data, gas: 1_000_000n, ...fees }),
      );
    }
    await client.mine({ blocks: 1 });
    return hashes;
  } finally {
    await client.setAutomine(true);
  }
}

/** Deploys a contract that runs the proxy's code at its own address (ERC-1167). */
export async function cloneOfProxy(anvil: Anvil): Promise<Address> {
  const code = x402ExactPermit2ProxyAddress.slice(2);
  const data: Hex = `0x3d602d80600a3d3981f3363d3d373d3d3d363d73${code}5af43d82803e903d91602b57fd5bf3`;
  const { contractAddress } = await sendTransaction({ anvil, from: accounts.stranger, data });
  if (!contractAddress) throw new Error("the clone was not deployed");
  return contractAddress;
}
