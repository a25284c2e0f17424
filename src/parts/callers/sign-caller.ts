import { privateKeyToAccount } from "viem/accounts";
import { type CallerClaim, callerClaimText } from "./signature.ts";

/**
 * Returns the headers that authenticate a delegated caller.
 * @param privateKey 32 bytes as hex with `0x`; its address is the caller
 * @throws Error when the private key is not a valid secp256k1 key
 */
export async function signCaller(
  privateKey: `0x${string}`,
  claim: CallerClaim,
): Promise<Record<string, string>> {
  const account = privateKeyToAccount(privateKey);
  return {
    "X-CHAIN-CALLER": account.address,
    "X-CHAIN-CALLER-SIG": await account.signMessage({ message: await callerClaimText(claim) }),
    "X-CHAIN-CALLER-NONCE": claim.nonce,
    "X-CHAIN-CALLER-EXPIRY": claim.expiry,
  };
}
