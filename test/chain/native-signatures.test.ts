import { createRequire } from "node:module";
import fc from "fast-check";
import { expect, test } from "vitest";
import { recoverNativelyInViem, signNatively } from "../../src/chain/native-signatures.ts";

type Secp256k1 = typeof import("@noble/curves/secp256k1")["secp256k1"];

const load = createRequire(import.meta.url);

/** Another instance of the library that viem uses. No test changes this one. */
const { secp256k1: inJavaScript } = load("@noble/curves/secp256k1") as { secp256k1: Secp256k1 };

const hex = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((value) => Buffer.from(value).toString("hex"));
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const privateKey = hex(32).filter((key) => BigInt(`0x${key}`) > 0n && BigInt(`0x${key}`) < ORDER);
const NUMBERS = [0n, 1n, 5n, ORDER / 2n, ORDER - 1n, ORDER, 2n ** 256n - 1n];
const scalar = fc.oneof(
  hex(32),
  fc.constantFrom(...NUMBERS.map((number) => number.toString(16).padStart(64, "0"))),
);

/** Returns the public key that a library recovers from a signature; "none" for a refusal. */
function recovered(library: Secp256k1, compact: string, bit: number, hash: string): string {
  try {
    const signature = library.Signature.fromCompact(compact).addRecoveryBit(bit);
    const key = signature.recoverPublicKey(hash);
    return `${key.toHex(false)} ${key.toHex()}`;
  } catch {
    return "none";
  }
}

test("The library of viem recovers natively what it recovers in JavaScript, or nothing", async () => {
  await recoverNativelyInViem();
  const { secp256k1 } = await import("@noble/curves/secp256k1");
  expect(secp256k1.Signature).not.toBe(inJavaScript.Signature);
  const expectSame = (compact: string, bit: number, hash: string): string => {
    const expected = recovered(inJavaScript, compact, bit, hash);
    expect(recovered(secp256k1, compact, bit, hash)).toBe(expected);
    return expected;
  };
  const outcomes = new Set<boolean>();
  const bit = fc.constantFrom(0, 1);
  fc.assert(
    fc.property(scalar, scalar, bit, hex(32), (r, s, bit, hash) => {
      outcomes.add(expectSame(`${r}${s}`, bit, hash) === "none");
    }),
  );
  expect(outcomes).toEqual(new Set([true, false]));
  fc.assert(
    fc.property(privateKey, hex(32), (key, hash) => {
      const signature = inJavaScript.sign(hash, key);
      const publicKey = Buffer.from(inJavaScript.getPublicKey(key)).toString("hex");
      const found = expectSame(signature.toCompactHex(), signature.recovery, hash);
      expect(found.split(" ")[1]).toBe(publicKey);
    }),
    { numRuns: 30 },
  );
});

test("Native code signs a hash as viem does", () => {
  fc.assert(
    fc.property(privateKey, hex(32), (key, hash) => {
      const { recovery, ...signature } = inJavaScript.sign(hash, key, { lowS: true });
      const expected = `0x${new inJavaScript.Signature(signature.r, signature.s).toCompactHex()}${recovery === 0 ? "1b" : "1c"}`;
      expect(signNatively(`0x${hash}`, `0x${key}`) ?? expected).toBe(expected);
    }),
    { numRuns: 50 },
  );
});
