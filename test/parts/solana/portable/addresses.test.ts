import { getAddressDecoder, isAddress as isKitAddress, isOffCurveAddress } from "@solana/kit";
import { expect, test } from "vitest";
import {
  fromBase58,
  isAddress,
  isOnCurve,
  PROGRAMS,
  toBase58,
} from "../../../../src/parts/solana/portable/addresses.ts";

const bytesOf = (seed: number) =>
  Buffer.from(Array.from({ length: 32 }, (_, i) => (seed * 37 + i * i * 11) % 256));

test("Base58 and points of the curve equal the official library's", () => {
  const samples = [
    Buffer.alloc(32),
    Buffer.alloc(32, 255),
    Buffer.concat([Buffer.alloc(5), bytesOf(1).subarray(5)]),
  ];
  for (let seed = 0; seed < 100; seed++) samples.push(bytesOf(seed));
  let onCurve = 0;
  for (const bytes of samples) {
    const text = getAddressDecoder().decode(bytes);
    expect(toBase58(bytes)).toBe(text);
    expect(fromBase58(text, 32)).toEqual(Uint8Array.from(bytes));
    expect(isOnCurve(bytes)).toBe(!isOffCurveAddress(text));
    if (isOnCurve(bytes)) onCurve++;
  }
  expect(onCurve).toBeGreaterThan(20);
  expect(onCurve).toBeLessThan(80);
});

test.each([
  "",
  "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
  PROGRAMS.token.slice(1),
  `${PROGRAMS.token}1`,
  PROGRAMS.token.replace("T", "0"),
  "1".repeat(31),
  "z".repeat(44),
])("%j is not an address", (text) => {
  expect(isAddress(text)).toBe(false);
  expect(isKitAddress(text)).toBe(false);
});
