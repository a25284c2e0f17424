import { createRequire } from "node:module";
import { secp256k1 } from "@noble/curves/secp256k1";

/** As far as viem uses it. */
interface Signature {
  readonly recovery: number;
  toCompactRawBytes(): Uint8Array;
  recoverPublicKey(hash: string): { toHex(isCompressed?: boolean): string };
}

/**
 * Recovers signers in viem by the native library that jobgate uses. The official facilitator recovers several for each payment,
 * which in JavaScript takes an eighth of the CPU of the tests that pay. Where the library is missing, nothing changes.
 */
function recoverNatively(): void {
  const native = (() => {
    try {
      return createRequire(import.meta.url)("secp256k1/bindings.js") as {
        ecdsaRecover(signature: Uint8Array, id: number, hash: Uint8Array, isCompressed: boolean): Uint8Array;
      };
    } catch {
      return undefined;
    }
  })();
  if (native === undefined) return;
  const prototype = secp256k1.Signature.prototype as unknown as Signature;
  prototype.recoverPublicKey = function (hash) {
    const bytes = Buffer.from(hash, "hex");
    const recover = (isCompressed: boolean) =>
      native.ecdsaRecover(this.toCompactRawBytes(), this.recovery, bytes, isCompressed);
    return { toHex: (isCompressed = true) => Buffer.from(recover(isCompressed)).toString("hex") };
  };
}

recoverNatively();
