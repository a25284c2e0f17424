import type { Rpc } from "../../chain/rpc.ts";
import { PERMIT2_CODE, PROXIES } from "./permit2-code.ts";
import { putContract } from "./token.ts";

/** Address of Permit2 on every chain. */
export const PERMIT2_ADDRESS = "0x000000000022D473030F116dDEE9F6B43aC78BA3";

/** Puts Permit2 and x402's proxies at their addresses on a local chain. */
export async function installPermit2(rpc: Rpc): Promise<void> {
  // The constructor runs at Permit2's address, because it caches a domain separator that contains the address.
  await rpc.call("anvil_setCode", [PERMIT2_ADDRESS, PERMIT2_CODE]);
  const runtimeCode = await rpc.call("eth_call", [{ to: PERMIT2_ADDRESS }, "latest"]);
  await rpc.call("anvil_setCode", [PERMIT2_ADDRESS, runtimeCode]);
  for (const [address, code] of PROXIES) await putContract(rpc, address, code);
}
