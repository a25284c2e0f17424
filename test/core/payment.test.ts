import { expect, test } from "vitest";
import { oneSpelling } from "../../src/core/payment.ts";

test("Letter case means nothing in hexadecimal, and something in base58", () => {
  const hex = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
  expect(oneSpelling(hex)).toBe(hex.toLowerCase());
  expect(oneSpelling(`0X${hex.slice(2)}`)).toBe(hex.toLowerCase());
  const base58 = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";
  expect(oneSpelling(base58)).toBe(base58);
  expect(oneSpelling("eip155:8453")).toBe("eip155:8453");
});
