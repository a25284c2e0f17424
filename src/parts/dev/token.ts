import type { Rpc } from "../../chain/rpc.ts";
import { DEV_USDC_CODE } from "./contract-code.ts";
import { PERMIT2_ADDRESS, putContract } from "./permit2.ts";

/** First account of the chain, whose transactions anvil signs. */
const MINTER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
/** mint(address,uint256) */
const MINT = "0x40c10f19";
/** approve(address,uint256) */
const APPROVE = "0x095ea7b3";
const MAX_UINT256 = 2n ** 256n - 1n;

/**
 * Puts play money at the real token's address on a local chain, gives some to an account of anvil's, and lets Permit2 move
 * the account's money.
 */
export async function issuePlayMoney(
  rpc: Rpc,
  money: { readonly token: string; readonly holder: string; readonly units: bigint },
): Promise<void> {
  const { token, holder, units } = money;
  await putContract(rpc, token, DEV_USDC_CODE);
  for (const [from, selector, account, amount] of [
    [MINTER, MINT, holder, units],
    [holder, APPROVE, PERMIT2_ADDRESS, MAX_UINT256],
  ] as const) {
    const data = `${selector}${word(account)}${word(amount.toString(16))}`;
    await rpc.call("eth_sendTransaction", [{ from, to: token, data }]);
  }
}

function word(hex: string): string {
  return hex.replace("0x", "").padStart(64, "0");
}
