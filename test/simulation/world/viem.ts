/* Takes the place of `viem`, and of `src/chain/recover-address.ts`: the same, with made-up signatures that only their signer makes, and that cost nothing. */
import { hashTypedData, keccak256 } from "viem";

export * from "viem";

type Hex = `0x${string}`;

export const RECOVERY_LIBRARY = "made-up signatures";

/** Signs a hash. @param signer address */
export function signHash(signer: string, hash: Hex): Hex {
  return `0x${signer.slice(2).toLowerCase().padStart(64, "0")}${proofOf(signer, hash)}1b`;
}

export async function recoverAddress(signed: { readonly hash: Hex; readonly signature: Hex }): Promise<Hex> {
  const { hash, signature } = signed;
  const signer: Hex = `0x${signature.slice(26, 66)}`;
  if (signature.slice(66, 130) === proofOf(signer, hash)) return signer;
  // As of a signature over something else.
  return `0x${keccak256(`0x${hash.slice(2)}${signature.slice(2)}`).slice(26)}`;
}

export async function recoverTypedDataAddress({
  signature,
  ...signed
}: Parameters<typeof hashTypedData>[0] & { readonly signature: Hex }): Promise<Hex> {
  return recoverAddress({ hash: hashTypedData(signed as Parameters<typeof hashTypedData>[0]), signature });
}

/** Returns 32 bytes in hex that begin with a low digit, as the second half of a signature must. */
function proofOf(signer: string, hash: Hex): string {
  return `0${keccak256(`0x${signer.slice(2).toLowerCase()}${hash.slice(2)}`).slice(3)}`;
}
