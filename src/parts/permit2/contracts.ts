import { PERMIT2_ADDRESS } from "@x402/evm";
import type { Rpc } from "../../chain/rpc.ts";
import { numberWord } from "../../x402/settlement/chain-logs.ts";
import { EXACT_PROXY, findProxy, type X402Proxy } from "./proxies.ts";

/** Permit2 itself, lower case as the proxies. */
export const PERMIT2_CONTRACT = PERMIT2_ADDRESS.toLowerCase() as `0x${string}`;

/** `nonceBitmap(address,uint256)` */
const NONCE_BITMAP = "0x4fe02b44";

/** Returns the call that reads the word of 256 bits, one for each nonce of an owner, in which the bit of a nonce is. */
export function bitmapCall(ownerWord: string, nonce: bigint): { readonly to: string; readonly data: string } {
  return { to: PERMIT2_CONTRACT, data: `${NONCE_BITMAP}${ownerWord}${numberWord(nonce >> 8n)}` };
}

/** Returns true if Permit2 and x402's proxy are deployed at their addresses. */
async function hasContracts(rpc: Rpc, { address }: X402Proxy): Promise<boolean> {
  const [bitmap, proxy] = await Promise.all([
    rpc.callForWord(bitmapCall(numberWord(1n), 0n)),
    rpc.call("eth_getCode", [address, "latest"]),
  ]);
  return bitmap !== undefined && proxy !== "0x";
}

/** Returns why tokens of a chain cannot be paid by Permit2 in a scheme. */
export async function findChainProblem(
  rpc: Rpc,
  { network, scheme }: { readonly network: string; readonly scheme: string },
): Promise<string | undefined> {
  const proxy = findProxy({ scheme }) ?? EXACT_PROXY;
  if (await hasContracts(rpc, proxy)) return undefined;
  return `is permit2, but ${network} does not have Permit2 and x402's proxy${proxy.jobs}; expected another method`;
}
