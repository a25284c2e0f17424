import type { Authorization } from "./chain.ts";

/** Call of one of the chain's contracts. */
export type Call =
  /** `sender` is the only address that may send it, of a deferred payment. */
  | { readonly kind: "settle"; readonly authorization: Authorization; readonly sender?: string }
  | { readonly kind: "transfer"; readonly token: string; readonly to: string; readonly amount: bigint };

/** Functions that settle, of the proxies for the schemes exact and upto, with the words before the owner's. */
export const SETTLES = { exact: ["13cd3b53", 4], upto: ["ff11e7b4", 5] } as const;
/** `transferWithAuthorization`, with the signature in three words and as bytes. */
const TRANSFERS_WITH_AUTHORIZATION = ["e3ee160e", "cf092995"];
/** `transfer(address,uint256)` */
const TRANSFER = "a9059cbb";

/** A question or a transaction that a node refuses. */
export class RpcFault extends Error {}

/** Reads call data. @returns undefined for functions that move nothing */
export function readCall(to: string, data: string): Call | undefined {
  const selector = data.slice(2, 10);
  const word = (at: number) => data.slice(10 + 64 * at, 74 + 64 * at);
  const address = (at: number) => `0x${word(at).slice(24)}`;
  const number = (at: number) => BigInt(`0x${word(at)}`);
  if (selector === TRANSFER)
    return { kind: "transfer", token: to.toLowerCase(), to: address(0), amount: number(1) };
  if (TRANSFERS_WITH_AUTHORIZATION.includes(selector)) {
    const validBefore = Number(number(4));
    const authorization = { payer: address(0), to: address(1), amount: number(2), validBefore };
    return { kind: "settle", authorization: { ...authorization, nonce: `0x${word(5)}` } };
  }
  const isDeferred = selector === SETTLES.upto[0];
  if (!isDeferred && selector !== SETTLES.exact[0]) return undefined;
  const ownerAt = SETTLES[isDeferred ? "upto" : "exact"][1];
  const authorization = {
    ...{ payer: address(ownerAt), to: address(ownerAt + 1), amount: number(isDeferred ? 4 : 1) },
    // Permit2 accepts a permit at its very deadline.
    ...{ nonce: String(number(2)), validBefore: Number(number(3)) + 1, proxy: to.toLowerCase() },
  };
  return { kind: "settle", authorization, ...(isDeferred && { sender: address(ownerAt + 2) }) };
}
