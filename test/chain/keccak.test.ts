import { keccak256 as hashWithViem } from "viem";
import { expect, test } from "vitest";
import { keccak256 } from "../../src/chain/keccak.ts";

const LENGTHS = [0, 1, 64, 66, 135, 136, 137, 1_000];

test("A hash is viem's, before the faster code is compiled and after", async () => {
  const bytes = LENGTHS.map((length) => Uint8Array.from({ length }, (_, i) => i));
  const expected = bytes.map((one) => hashWithViem(one));
  expect(bytes.map(keccak256)).toEqual(expected);
  // The compilation of a few kilobytes ends with an event of the thread pool.
  const { createKeccak } = await import("hash-wasm");
  await createKeccak(256);
  expect(bytes.map(keccak256)).toEqual(expected);
});
