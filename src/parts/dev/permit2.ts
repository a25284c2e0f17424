import type { Rpc } from "../../chain/rpc.ts";
import { EXACT_PROXY_CODE, PERMIT2_CODE, UPTO_PROXY_CODE } from "./permit2-code.ts";
import { putContract } from "./token.ts";

/* Addresses on every chain. */
export const PERMIT2_ADDRESS = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
const EXACT_PROXY_ADDRESS = "0x402085c248EeA27D92E8b30b2C58ed07f9E20001";
const UPTO_PROXY_ADDRESS = "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002";

/** Puts Permit2 and x402's proxies at their addresses on a local chain. */
export async function installPermit2(rpc: Rpc): Promise<void> {
  // Run at its address, which the constructor puts into the cached domain separator.
  await rpc.call("anvil_setCode", [PERMIT2_ADDRESS, PERMIT2_CODE]);
  const runtimeCode = await rpc.call("eth_call", [{ to: PERMIT2_ADDRESS }, "latest"]);
  await rpc.call("anvil_setCode", [PERMIT2_ADDRESS, runtimeCode]);
  await putContract(rpc, EXACT_PROXY_ADDRESS, EXACT_PROXY_CODE);
  await putContract(rpc, UPTO_PROXY_ADDRESS, UPTO_PROXY_CODE);
}
