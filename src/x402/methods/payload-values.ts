import { hash } from "node:crypto";
import * as z from "zod";

/* Values of signed payloads, from which the schemas of methods are built. */

const MAX_U256 = 2n ** 256n - 1n;

export const address = z.string().regex(/^0x[0-9a-fA-F]{40}$/, "expected an address: 0x and 40 hex digits");

/** Leading zeros are refused, so that each number has one spelling. */
export const decimal = z
  .string()
  .refine((digits) => /^(0|[1-9][0-9]{0,77})$/.test(digits) && BigInt(digits) <= MAX_U256, {
    error: "expected a whole number below 2^256 as a decimal string",
    abort: true,
  });

export const uint = decimal.transform((digits) => BigInt(digits));

/**
 * A plain account's signature has 65 bytes. A smart account's contract decides (ERC-1271), so its signature may be empty,
 * and an ERC-6492 signature is long.
 */
export const signature = z
  .string()
  .regex(/^0x(?:[0-9a-fA-F]{2}){0,4096}$/, "expected a signature: 0x and at most 4096 bytes of hex");

/** Values of payloads that other sellers send for settlement, in the forms that the settling library accepts. */
export const loose = {
  hex: z.string().regex(/^0x(?:[0-9a-fA-F]{2})*$/),
  word: z.string().regex(/^0x[0-9a-fA-F]{64}$/),
  address: z.string().regex(/^0x[0-9a-fA-F]{40}$/),
  uint: z.string().refine((digits) => /^[0-9]{1,78}$/.test(digits) && BigInt(digits) < 2n ** 256n),
};

export function lowerCase(hex: string): `0x${string}` {
  return hex.toLowerCase() as `0x${string}`;
}

/** Returns the digest of a payment's signed fields, in their order, and its signature. */
export function fingerprintOf(signature: string, fields: object): string {
  const text = JSON.stringify({ ...fields, signature: signature.toLowerCase() }, (_key, value) =>
    typeof value === "bigint" ? value.toString() : value,
  );
  return hash("sha256", text);
}
