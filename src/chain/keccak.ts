import { keccak_256 as inJavaScript } from "@noble/hashes/sha3.js";
import type { Hex } from "viem";

/** The part of hash-wasm's hashers that is used here. */
interface Hasher {
  init(): Hasher;
  update(bytes: Uint8Array): Hasher;
  digest(form: "binary"): Uint8Array;
}

let compiled: Hasher | undefined;
let isCompiling = false;

/**
 * Returns the Keccak-256 hash of bytes. WebAssembly takes 2 µs where JavaScript takes 20. The WebAssembly code is compiled
 * at the first hash. Until it is ready, or if there is no WebAssembly, JavaScript computes the hashes.
 */
export function keccak256(bytes: Uint8Array): Hex {
  return `0x${Buffer.from(hash(bytes)).toString("hex")}`;
}

function hash(bytes: Uint8Array): Uint8Array {
  if (compiled !== undefined) return compiled.init().update(bytes).digest("binary");
  if (!isCompiling) {
    isCompiling = true;
    compile().catch(() => undefined);
  }
  return inJavaScript(bytes);
}

async function compile(): Promise<void> {
  const { createKeccak } = await import("hash-wasm");
  compiled = await createKeccak(256);
}

/*
 * The bundle has this module in the place of `@noble/hashes/sha3`, so that viem uses it. viem's own hashes took a tenth of the
 * CPU of a payment that jobgate settles.
 */

export * from "@noble/hashes/sha3.js";

/** The hash function of the replaced module. */
export const keccak_256: typeof inJavaScript = Object.assign(
  (message: Uint8Array | string) => (typeof message === "string" ? inJavaScript(message) : hash(message)),
  {
    outputLen: inJavaScript.outputLen,
    blockLen: inJavaScript.blockLen,
    create: inJavaScript.create,
  },
);
