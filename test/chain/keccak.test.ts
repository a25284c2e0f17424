import { keccak_256 as inJavaScript } from "@noble/hashes/sha3";
import { keccak256 as hashWithViem } from "viem";
import { expect, test } from "vitest";
import { keccak256, keccak_256 as replacing } from "../../src/chain/keccak.ts";

const LENGTHS = [0, 1, 64, 66, 135, 136, 137, 1_000];

test("A hash is viem's, before the faster code is compiled and after, also under the name that viem uses", async () => {
  const bytes = LENGTHS.map((length) => Uint8Array.from({ length }, (_, i) => i));
  const expectSame = () => {
    expect(bytes.map(keccak256)).toEqual(bytes.map((one) => hashWithViem(one)));
    for (const one of bytes) expect([...replacing(one)]).toEqual([...inJavaScript(one)]);
    expect([...replacing("text")]).toEqual([...inJavaScript("text")]);
  };
  expectSame();
  // The compilation of a few kilobytes ends with an event of the thread pool.
  const { createKeccak } = await import("hash-wasm");
  await createKeccak(256);
  expectSame();
  expect([...replacing.create().update(Uint8Array.of(7)).digest()]).toEqual([
    ...inJavaScript(Uint8Array.of(7)),
  ]);
  expect([replacing.outputLen, replacing.blockLen]).toEqual([inJavaScript.outputLen, inJavaScript.blockLen]);
});
