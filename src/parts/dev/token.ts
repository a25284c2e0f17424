import type { Rpc } from "../../chain/rpc.ts";
import { DEV_USDC_CODE, EXACT_PROXY_CODE, PERMIT2_CODE, UPTO_PROXY_CODE } from "./contract-code.ts";

/** First account of the chain, whose transactions anvil signs. */
const MINTER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
/** mint(address,uint256) */
const MINT = "0x40c10f19";
/** approve(address,uint256) */
const APPROVE = "0x095ea7b3";
/* Addresses on every chain. */
const PERMIT2_ADDRESS = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
const EXACT_PROXY_ADDRESS = "0x402085c248EeA27D92E8b30b2C58ed07f9E20001";
const UPTO_PROXY_ADDRESS = "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002";
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

/** Puts Permit2 and x402's proxies at their addresses on a local chain. */
export async function installPermit2(rpc: Rpc): Promise<void> {
  // Run at its address, which the constructor puts into the cached domain separator.
  await rpc.call("anvil_setCode", [PERMIT2_ADDRESS, PERMIT2_CODE]);
  const runtimeCode = await rpc.call("eth_call", [{ to: PERMIT2_ADDRESS }, "latest"]);
  await rpc.call("anvil_setCode", [PERMIT2_ADDRESS, runtimeCode]);
  await putContract(rpc, EXACT_PROXY_ADDRESS, EXACT_PROXY_CODE);
  await putContract(rpc, UPTO_PROXY_ADDRESS, UPTO_PROXY_CODE);
}

/** The creation code returns the contract's code. */
async function putContract(rpc: Rpc, address: string, creationCode: string): Promise<void> {
  await rpc.call("anvil_setCode", [address, await rpc.call("eth_call", [{ data: creationCode }, "latest"])]);
}

function word(hex: string): string {
  return hex.replace("0x", "").padStart(64, "0");
}
