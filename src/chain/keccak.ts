import { type Hex, keccak256 as hashWithViem } from "viem";

/** The part of hash-wasm's hashers that is used here. */
interface Hasher {
  init(): Hasher;
  update(bytes: Uint8Array): Hasher;
  digest(): string;
}

let compiled: Hasher | undefined;
let isCompiling = false;

/**
 * Returns the Keccak-256 hash of bytes. WebAssembly takes 2 µs where viem's JavaScript takes 20. The WebAssembly code is
 * compiled at the first hash. Until it is ready, or if there is no WebAssembly, viem computes the hashes.
 */
export function keccak256(bytes: Uint8Array): Hex {
  if (compiled !== undefined) return `0x${compiled.init().update(bytes).digest()}`;
  if (!isCompiling) {
    isCompiling = true;
    compile().catch(() => undefined);
  }
  return hashWithViem(bytes);
}

async function compile(): Promise<void> {
  const { createKeccak } = await import("hash-wasm");
  compiled = await createKeccak(256);
}
