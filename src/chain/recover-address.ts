import { type Hex, hashTypedData, recoverAddress as recoverWithViem, type TypedDataDefinition } from "viem";
import { keccak256 } from "./keccak.ts";
import { nativeSignatures as native } from "./native-signatures.ts";

/** Name of the package that recovers signers. Recovery in JavaScript, by viem, costs thirty times the CPU. */
export const RECOVERY_LIBRARY = native === undefined ? "viem" : "secp256k1";

/**
 * Returns the address of the account that signed a hash of 32 bytes, in lower case.
 * @throws Error for a signature that no account can have made; a signature with a high s is accepted, as in viem
 */
export async function recoverAddress(signed: { readonly hash: Hex; readonly signature: Hex }): Promise<Hex> {
  if (native === undefined) return (await recoverWithViem(signed)).toLowerCase() as Hex;
  const { hash, signature } = signed;
  const bytes = Buffer.from(signature.slice(2), "hex");
  if (signature.length !== 2 + 130 || bytes.length !== 65) throw new Error("a signature has 65 bytes");
  const key = native.ecdsaRecover(
    bytes.subarray(0, 64),
    recoveryIdOf(bytes[64]),
    Buffer.from(hash.slice(2), "hex"),
    false,
  );
  return `0x${keccak256(key.subarray(1)).slice(-40)}`;
}

/** Returns the address that signed typed data (EIP-712). */
export async function recoverTypedDataAddress({
  signature,
  ...typedData
}: TypedDataDefinition<Record<string, unknown>, string> & { readonly signature: Hex }): Promise<Hex> {
  return recoverAddress({ hash: hashTypedData(typedData), signature });
}

function recoveryIdOf(v: number | undefined): 0 | 1 {
  if (v === 0 || v === 27) return 0;
  if (v === 1 || v === 28) return 1;
  throw new Error("the last byte of a signature is 27, 28, 0 or 1");
}
