import { type Hex, keccak256, toHex } from "viem";
import type { TestAccount } from "./accounts.ts";

const GROUP_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

/** A delegated caller's claim and its signature. */
export interface SignedClaim {
  readonly caller: string;
  readonly signature: Hex;
  readonly nonce: string;
  /** Unix seconds. */
  readonly expiry: string;
}

/** Signs as the specification says, by a wallet's own means. */
export async function signClaim(options: {
  readonly account: TestAccount;
  readonly serviceId: bigint;
  readonly jobIndex: number;
  readonly body: string | Uint8Array;
  /** Hash of the whole request in hex, for a job at a route. Default: that of the body. */
  readonly requestHash?: string;
  /** Default: random. */
  readonly nonce?: string;
  /** Unix seconds. Default: 10 minutes from now. */
  readonly expiry?: number | string;
}): Promise<SignedClaim> {
  const { account, serviceId, jobIndex, body, requestHash } = options;
  const { nonce = crypto.randomUUID(), expiry = Math.floor(Date.now() / 1000) + 600 } = options;
  const bodyHash = keccak256(typeof body === "string" ? Buffer.from(body) : body).slice(2);
  const message = `x402-authorize:${serviceId}:${jobIndex}:${requestHash ?? bodyHash}:${nonce}:${expiry}`;
  const signature = await account.signMessage({ message });
  return { caller: account.address, signature, nonce, expiry: String(expiry) };
}

/** The headers of a claim. A part that is undefined is left out. */
export function claimHeaders(claim: { readonly [Part in keyof SignedClaim]?: string | undefined }): {
  [name: string]: string;
} {
  const headers = {
    "X-CHAIN-CALLER": claim.caller,
    "X-CHAIN-CALLER-SIG": claim.signature,
    "X-CHAIN-CALLER-NONCE": claim.nonce,
    "X-CHAIN-CALLER-EXPIRY": claim.expiry,
  };
  return Object.fromEntries(
    Object.entries(headers).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

/** The equivalent signature with a high s. */
export function highS(signature: Hex): Hex {
  const s = GROUP_ORDER - BigInt(`0x${signature.slice(66, 130)}`);
  const v = signature.endsWith("1b") ? "1c" : "1b";
  return `0x${signature.slice(2, 66)}${toHex(s, { size: 32 }).slice(2)}${v}`;
}
