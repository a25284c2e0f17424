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
 * Returns the Keccak-256 hash of bytes. WebAssembly takes 2 µs for what takes viem's JavaScript 20. Its code is compiled once there is
 * something to hash, and viem hashes until then, and where there is no WebAssembly.
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
