import { createKeyPairSignerFromBytes, getBase58Decoder, signBytes } from "@solana/kit";
import { expect, test } from "vitest";
import { readKey } from "../../../src/parts/solana/key.ts";
import { solanaKeyBytes } from "../../helpers/solana-cluster.ts";

test.each([
  ["a JSON array, as solana-keygen writes it", (bytes: Uint8Array) => `${JSON.stringify([...bytes])}\n`],
  ["base58", (bytes: Uint8Array) => getBase58Decoder().decode(bytes)],
])("A key that is %s signs as the official signer does", async (_, write) => {
  const bytes = await solanaKeyBytes(2);
  const official = await createKeyPairSignerFromBytes(bytes);
  const key = readKey(write(bytes));
  const message = new Uint8Array(300).fill(7);
  expect(key?.address).toBe(official.address);
  expect(Buffer.from(key?.sign(message) ?? [])).toEqual(
    Buffer.from(await signBytes(official.keyPair.privateKey, message)),
  );
});

test("A text that is not a key is recognised, and its mistake is described without a byte of it", async () => {
  const bytes = await solanaKeyBytes(2);
  const other = Uint8Array.from([...bytes.subarray(0, 32), ...(await solanaKeyBytes(3)).subarray(32)]);
  const base58 = (some: Uint8Array) => getBase58Decoder().decode(some);
  const array = (some: ArrayLike<number>) => JSON.stringify(Array.from(some));
  for (const text of [
    "",
    "hello",
    base58(bytes.subarray(0, 32)),
    `${base58(bytes).slice(1)}l`,
    "0".repeat(88),
  ])
    expect(readKey(text)).toBeUndefined();
  const mixed = /^has an account in its last 32 bytes that is not the account of its first 32 bytes$/;
  expect(() => readKey(array(other))).toThrow(mixed);
  expect(() => readKey(base58(other))).toThrow(mixed);
  expect(() => readKey(array(bytes.subarray(32)))).toThrow(
    /^is a JSON array of 32 values; expected 64 numbers$/,
  );
  expect(() => readKey(array(bytes).slice(0, -3))).toThrow(
    /^is a JSON array with a mistake; expected 64 numbers$/,
  );
  for (const wrong of [256, -1, 1.5])
    expect(() => readKey(array([...bytes.subarray(1), wrong]))).toThrow(
      /^is a JSON array of other values than numbers from 0 to 255$/,
    );
});
