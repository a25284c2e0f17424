import { PERMIT2_ADDRESS } from "@x402/evm";
import { type Address, encodeFunctionData, type Hex, parseAbi } from "viem";
import { Rpc } from "../../src/chain/rpc.ts";
import { installPermit2 as installOn } from "../../src/parts/dev/permit2.ts";
import { PERMIT2_CODE } from "../../src/parts/dev/permit2-code.ts";
import { accounts, type TestAccount } from "./accounts.ts";
import { type Anvil, sendTransaction } from "./anvil.ts";
import { compileSolidity } from "./solidity.ts";
import { eip3009Token, type Token, type TransactionOrder } from "./usdc.ts";

/** The parts of Permit2 that tests use. */
const permit2Abi = parseAbi([
  "function nonceBitmap(address owner, uint256 word) view returns (uint256)",
  "function invalidateUnorderedNonces(uint256 word, uint256 mask)",
  "event UnorderedNonceInvalidation(address indexed owner, uint256 word, uint256 mask)",
]);

const erc20Abi = parseAbi(["function approve(address spender, uint256 amount) returns (bool)"]);

/**
 * Puts Permit2 and x402's proxies at their addresses. `code: "creation"` leaves Permit2's creation
 * code there: a contract at which each call succeeds, and none moves a token.
 */
export async function installPermit2(
  anvil: Anvil,
  { code = "runtime" }: { readonly code?: "runtime" | "creation" } = {},
): Promise<void> {
  await installOn(new Rpc({ rpcUrl: anvil.rpcUrl, timeoutMs: 10_000 }));
  if (code === "creation") await anvil.client.setCode({ address: PERMIT2_ADDRESS, bytecode: PERMIT2_CODE });
}

/** Lets Permit2 move the account's tokens, as each payer does once. Default: all of them. */
export async function approvePermit2(
  options: {
    readonly anvil: Anvil;
    readonly token: Address;
    readonly account: TestAccount;
    readonly amount?: bigint;
  } & TransactionOrder,
): Promise<void> {
  const { anvil, token, account, amount = 2n ** 256n - 1n, beforePending = false } = options;
  const data = encodeFunctionData({
    abi: erc20Abi,
    functionName: "approve",
    args: [PERMIT2_ADDRESS, amount],
  });
  await sendTransaction({ anvil, from: account, to: token, data, beforePending });
}

/** Returns true if the owner's nonce was used, by a transfer or by the owner who invalidated it. */
export async function isPermit2NonceUsed(anvil: Anvil, owner: Address, nonce: string): Promise<boolean> {
  const bitmap = await anvil.client.readContract({
    address: PERMIT2_ADDRESS,
    abi: permit2Abi,
    functionName: "nonceBitmap",
    args: [owner, BigInt(nonce) >> 8n],
  });
  return ((bitmap >> (BigInt(nonce) & 255n)) & 1n) === 1n;
}

/** Invalidates a nonce as its owner; a payment with it reverts. Returns the transaction's hash. */
export async function invalidatePermit2Nonce(
  anvil: Anvil,
  owner: TestAccount,
  nonce: string,
  order: TransactionOrder = {},
): Promise<Hex> {
  const data = encodeFunctionData({
    abi: permit2Abi,
    functionName: "invalidateUnorderedNonces",
    args: [BigInt(nonce) >> 8n, 1n << (BigInt(nonce) & 255n)],
  });
  return (await sendTransaction({ anvil, from: owner, to: PERMIT2_ADDRESS, data, ...order })).transactionHash;
}

/** A token that only Permit2 can move for its payers. */
export type PlainToken = Pick<Token, "address" | "mint" | "balanceOf">;

/** Deploys a token that has ERC-20 and nothing else, with 6 decimals. `FeeToken` keeps a tenth of what Permit2 moves. */
export async function deployPlainToken(
  anvil: Anvil,
  name: "PlainToken" | "FeeToken" = "PlainToken",
): Promise<PlainToken> {
  const { [name]: data } = await compileSolidity("PlainToken.sol");
  if (data === undefined) throw new Error(`PlainToken.sol holds no ${name}`);
  const { contractAddress } = await sendTransaction({ anvil, from: accounts.deployer, data });
  if (!contractAddress) throw new Error(`${name} was not deployed`);
  return eip3009Token({ anvil, address: contractAddress, name: "", version: "", decimals: 6 });
}
