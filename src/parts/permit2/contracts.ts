import { PERMIT2_ADDRESS, x402ExactPermit2ProxyAddress, x402UptoPermit2ProxyAddress } from "@x402/evm";
import type { Rpc } from "../../chain/rpc.ts";
import { numberWord } from "../../x402/settlement/chain-logs.ts";

/** Permit2 itself, lower case as the proxies. */
export const PERMIT2_CONTRACT = PERMIT2_ADDRESS.toLowerCase() as `0x${string}`;
/** Contract that settles payments of the scheme exact: the only spender that they may name. */
export const EXACT_PROXY = x402ExactPermit2ProxyAddress.toLowerCase() as `0x${string}`;
/** Contract that settles payments of the scheme upto. */
export const UPTO_PROXY = x402UptoPermit2ProxyAddress.toLowerCase() as `0x${string}`;

/** `nonceBitmap(address,uint256)` */
const NONCE_BITMAP = "0x4fe02b44";

/** Returns the call that reads the 256 bits of an owner's nonces among which a nonce is. */
export function bitmapCall(ownerWord: string, nonce: bigint): { readonly to: string; readonly data: string } {
  return { to: PERMIT2_CONTRACT, data: `${NONCE_BITMAP}${ownerWord}${numberWord(nonce >> 8n)}` };
}

/** Reports whether Permit2 answers at its address, and a contract is at that of x402's proxy for a scheme. */
async function hasContracts(rpc: Rpc, scheme: "exact" | "upto"): Promise<boolean> {
  const [bitmap, proxy] = await Promise.all([
    rpc.callForWord(bitmapCall(numberWord(1n), 0n)),
    rpc.call("eth_getCode", [scheme === "upto" ? UPTO_PROXY : EXACT_PROXY, "latest"]),
  ]);
  return bitmap !== undefined && proxy !== "0x";
}

/** Returns why tokens of a chain cannot be paid by Permit2 in a scheme. */
export async function findChainProblem(
  rpc: Rpc,
  { network, scheme }: { readonly network: string; readonly scheme: "exact" | "upto" },
): Promise<string | undefined> {
  if (await hasContracts(rpc, scheme)) return undefined;
  const of = scheme === "upto" ? ` for jobs with charge = "used"` : "";
  return `is permit2, but ${network} does not have Permit2 and x402's proxy${of}; expected another method`;
}
