import { createRequire } from "node:module";
import { secp256k1 } from "@noble/curves/secp256k1";
import type { Hex } from "viem";

/** The members of a signature of @noble/curves that viem uses. */
interface Signature {
  readonly recovery: number;
  toCompactRawBytes(): Uint8Array;
  recoverPublicKey(hash: string): { toHex(isCompressed?: boolean): string };
}

/** The native library that jobgate uses, where it is installed: a signature in JavaScript takes ten times its CPU. */
const native = (() => {
  try {
    return createRequire(import.meta.url)("secp256k1/bindings.js") as {
      ecdsaRecover(signature: Uint8Array, id: number, hash: Uint8Array, isCompressed: boolean): Uint8Array;
      ecdsaSign(
        hash: Uint8Array,
        key: Uint8Array,
      ): { readonly signature: Uint8Array; readonly recid: number };
    };
  } catch {
    return undefined;
  }
})();

const bytesOf = (hex: string) => Buffer.from(hex.replace(/^0x/, ""), "hex");

/** Signs a hash as viem does, with the same result. @returns undefined where the library is missing */
export function signNatively(hash: Hex, privateKey: Hex): Hex | undefined {
  if (native === undefined) return undefined;
  const { signature, recid } = native.ecdsaSign(bytesOf(hash), bytesOf(privateKey));
  return `0x${Buffer.from(signature).toString("hex")}${recid === 0 ? "1b" : "1c"}`;
}

/**
 * Recovers signers in viem by the native library. The official facilitator recovers several for each payment, which in
 * JavaScript takes an eighth of the CPU of the tests that pay. Where the library is missing, nothing changes.
 */
function recoverNatively(): void {
  if (native === undefined) return;
  const { ecdsaRecover } = native;
  const prototype = secp256k1.Signature.prototype as unknown as Signature;
  prototype.recoverPublicKey = function (hash) {
    const recover = (isCompressed: boolean) =>
      ecdsaRecover(this.toCompactRawBytes(), this.recovery, bytesOf(hash), isCompressed);
    return { toHex: (isCompressed = true) => Buffer.from(recover(isCompressed)).toString("hex") };
  };
}

recoverNatively();
