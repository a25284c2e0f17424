import type { Rpc } from "../../chain/rpc.ts";
import { DEV_USDC_CODE } from "./contract-code.ts";

/** First account of the chain, whose transactions anvil signs. */
const MINTER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
/** mint(address,uint256) */
const MINT = "0x40c10f19";
/** approve(address,uint256) */
const APPROVE = "0x095ea7b3";
const MAX_UINT256 = 2n ** 256n - 1n;

/**
 * Puts play money at the real token's address on a local chain, mints some for an account that anvil funds, and lets a contract
 * move the account's money.
 */
export async function issuePlayMoney(
  rpc: Rpc,
  money: {
    readonly token: string;
    readonly holder: string;
    readonly units: bigint;
    /** Address of the contract. */
    readonly spender: string;
  },
): Promise<void> {
  const { token, holder, units, spender } = money;
  await putContract(rpc, token, DEV_USDC_CODE);
  for (const [from, selector, account, amount] of [
    [MINTER, MINT, holder, units],
    [holder, APPROVE, spender, MAX_UINT256],
  ] as const) {
    const data = `${selector}${word(account)}${word(amount.toString(16))}`;
    await rpc.call("eth_sendTransaction", [{ from, to: token, data }]);
  }
}

/** Puts a contract at its address on a local chain. Running the creation code returns the code of the contract. */
export async function putContract(rpc: Rpc, address: string, creationCode: string): Promise<void> {
  await rpc.call("anvil_setCode", [address, await rpc.call("eth_call", [{ data: creationCode }, "latest"])]);
}

function word(hex: string): string {
  return hex.replace("0x", "").padStart(64, "0");
}
