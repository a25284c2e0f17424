import { expect, test } from "vitest";
import { solveChallenge } from "../../../src/parts/pricing-engine/proof-of-work.ts";
import { isProof } from "../../helpers/pricing-engine.ts";

const AT = 1_700_000_000n;
const VECTORS = [
  {
    id: 1n,
    bits: 8,
    nonce: 226n,
    proof: "2000000000000000005218286c4228e8b1dbdea09efca00005d8a1f3fb67219121700cd927853856e200000000000000",
  },
  {
    id: 42n,
    bits: 12,
    nonce: 5038n,
    proof: "2000000000000000000813efde5315d00b8297f18266d3bcd227c17572dcf7d4ce425f91fee42a31ae13000000000000",
  },
  {
    id: 1n,
    bits: 20,
    nonce: 20904n,
    proof: "2000000000000000000007d60ca2700e8b00bd827aa05ab112917adf2370a090583be995921eef25a851000000000000",
  },
];

test.each(VECTORS)(
  "The proof of service $id at $bits bits matches the specification",
  ({ id, bits, nonce, proof }) => {
    const found = solveChallenge({ id, timestamp: AT, bits }, () => false);
    expect(found?.toString("hex")).toBe(proof);
    expect(found?.readBigUInt64LE(40)).toBe(nonce);
  },
);

test.each(VECTORS)(
  "The engine accepts the specification's proof of service $id at $bits bits",
  ({ id, bits, proof }) => {
    const bytes = Buffer.from(proof, "hex");
    expect(isProof(bytes, { id, timestamp: AT, bits })).toBe(true);
    expect(isProof(bytes, { id: id + 1n, timestamp: AT, bits })).toBe(false);
    expect(isProof(bytes, { id, timestamp: AT + 1n, bits })).toBe(false);
    expect(isProof(bytes, { id, timestamp: AT, bits: bits + 8 })).toBe(false);
    expect(isProof(bytes.subarray(0, 47), { id, timestamp: AT, bits })).toBe(false);
    expect(isProof(Buffer.concat([bytes, Buffer.alloc(1)]), { id, timestamp: AT, bits })).toBe(false);
    const otherNonce = Buffer.from(bytes);
    otherNonce.writeBigUInt64LE(bytes.readBigUInt64LE(40) + 1n, 40);
    expect(isProof(otherNonce, { id, timestamp: AT, bits })).toBe(false);
  },
);

test("Every difficulty up to 12 bits is met, also for the largest IDs", () => {
  const id = 2n ** 64n - 1n;
  for (let bits = 0; bits <= 12; bits++) {
    const proof = solveChallenge({ id, timestamp: AT, bits }, () => false);
    expect([bits, proof !== undefined && isProof(proof, { id, timestamp: AT, bits })]).toEqual([bits, true]);
  }
});

test("An aborted search ends after a bounded number of hashes", () => {
  let asked = 0;
  const stopAtThird = () => ++asked === 3;
  expect(solveChallenge({ id: 1n, timestamp: AT, bits: 200 }, stopAtThird)).toBeUndefined();
  expect(asked).toBe(3);
});
