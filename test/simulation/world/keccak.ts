/* Takes the place of `@noble/hashes/sha3`: the same, with Keccak-256 in WebAssembly once that is compiled. */
import { keccak_256 as inJavaScript } from "@noble/hashes/sha3";
import { createKeccak, type IHasher } from "hash-wasm";

export * from "@noble/hashes/sha3";

let inWasm: IHasher | undefined;
void createKeccak(256).then((hasher) => {
  inWasm = hasher;
});

export function keccak_256(bytes: Uint8Array): Uint8Array {
  return inWasm?.init().update(bytes).digest("binary") ?? inJavaScript(bytes);
}
