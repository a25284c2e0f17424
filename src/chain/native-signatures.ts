import { createRequire } from "node:module";
import type { Hex } from "viem";

/** The functions of the package secp256k1 that are used here. Signatures are compact: r and s. */
interface NativeLibrary {
  /** Recovers a public key: 33 bytes, or a byte 4 and 64 bytes. */
  ecdsaRecover(
    signature: Uint8Array,
    recoveryId: number,
    hash: Uint8Array,
    isCompressed: boolean,
  ): Uint8Array;
  /** Signs with the nonce of RFC 6979 and a low s. */
  ecdsaSign(
    hash: Uint8Array,
    privateKey: Uint8Array,
  ): { readonly signature: Uint8Array; readonly recid: number };
}

/** The package, or undefined where it could not be installed. */
export const nativeSignatures = loadNative();

/** Signs a hash as viem does, with the same result. @returns undefined where the package could not be installed */
export function signNatively(hash: Hex, privateKey: Hex): Hex | undefined {
  if (nativeSignatures === undefined) return undefined;
  const { signature, recid } = nativeSignatures.ecdsaSign(bytesOf(hash), bytesOf(privateKey));
  return `0x${Buffer.from(signature).toString("hex")}${recid === 0 ? "1b" : "1c"}`;
}

/** The members of a signature of @noble/curves that viem uses. */
interface NobleSignature {
  readonly recovery: number;
  toCompactRawBytes(): Uint8Array;
  recoverPublicKey(hash: string): { toHex(isCompressed?: boolean): string };
}

/**
 * Lets viem recover signers by native code, with the same results. The SDK's schemes recover the signer of a payment twice,
 * with viem alone, which took a quarter of a payment's CPU. Where the package could not be installed, nothing changes.
 */
export async function recoverNativelyInViem(): Promise<void> {
  if (nativeSignatures === undefined) return;
  const { ecdsaRecover } = nativeSignatures;
  const { secp256k1 } = await import("@noble/curves/secp256k1");
  const prototype = secp256k1.Signature.prototype as unknown as NobleSignature;
  prototype.recoverPublicKey = function (hash) {
    const recover = (isCompressed: boolean) =>
      ecdsaRecover(this.toCompactRawBytes(), this.recovery, Buffer.from(hash, "hex"), isCompressed);
    return { toHex: (isCompressed = true) => Buffer.from(recover(isCompressed)).toString("hex") };
  };
}

function bytesOf(hex: Hex): Buffer {
  return Buffer.from(hex.slice(2), "hex");
}

/**
 * Loads the native code alone, because the main module of the package would fall back to JavaScript slower than viem's.
 */
function loadNative(): NativeLibrary | undefined {
  try {
    return createRequire(import.meta.url)("secp256k1/bindings.js");
  } catch {
    return undefined;
  }
}
