import { privateKeyToAccount } from "viem/accounts";
import { type CallerClaim, callerClaimText } from "./signature.ts";

export interface CallerSigning extends CallerClaim {
  /** 32 bytes as hex with `0x`; the caller is its address. */
  readonly privateKey: `0x${string}`;
}

/**
 * The headers by which a delegated caller says who it is.
 * @throws Error when the private key is not one of secp256k1
 */
export async function signCaller({ privateKey, ...claim }: CallerSigning): Promise<Record<string, string>> {
  const account = privateKeyToAccount(privateKey);
  return {
    "X-CHAIN-CALLER": account.address,
    "X-CHAIN-CALLER-SIG": await account.signMessage({ message: await callerClaimText(claim) }),
    "X-CHAIN-CALLER-NONCE": claim.nonce,
    "X-CHAIN-CALLER-EXPIRY": claim.expiry,
  };
}
