/* Takes the place of `hash-wasm`, whose compilation Node's own threads would end at some real time. */
import { keccak256 } from "viem";

export async function keccak(bytes: Uint8Array): Promise<string> {
  return keccak256(bytes).slice(2);
}
