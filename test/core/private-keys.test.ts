import { generateKeyPairSync, sign, verify } from "node:crypto";
import { expect, test } from "vitest";
import {
  decryptKeystore,
  KeystoreProblem,
  parseEd25519Key,
  parsePrivateKey,
} from "../../src/core/private-keys.ts";
import { KEYSTORES } from "../helpers/keystores.ts";

test.each(Object.entries(KEYSTORES))("Decrypts a keystore by %s", async (_kind, keystore) => {
  expect(await decryptKeystore(keystore.file, keystore.password)).toBe(keystore.privateKey);
});

const { file, password, privateKey } = KEYSTORES["scrypt with blocks of 8"];

test("A wrong password opens no keystore", async () => {
  await expect(decryptKeystore(file, "fooba")).rejects.toThrow(/^does not open with the password$/);
});

test.each([
  ["another version", file.replace('"version":3', '"version":1')],
  ["another cipher", file.replace("aes-128-ctr", "aes-128-cbc")],
  ["a cost that no machine can pay", file.replace('"n":8', '"n":1099511627776')],
  ["a cost that scrypt does not have", file.replace('"n":8', '"n":7')],
  ["a text that is not JSON", "hunter2"],
])("A keystore with %s is refused without a quote from it", async (_kind, damaged) => {
  const problem = await decryptKeystore(damaged, password).catch((error: unknown) => error);
  expect(problem).toEqual(
    new KeystoreProblem("is not Web3 Secret Storage of version 3, with scrypt or pbkdf2"),
  );
  expect(problem).not.toHaveProperty("cause");
});

test("A private key is a number below the order of its curve", () => {
  expect(parsePrivateKey(privateKey)).toBe(privateKey);
  expect(parsePrivateKey(privateKey.toUpperCase().replace("0X", "0x"))).toBe(privateKey);
  for (const outside of ["00".repeat(32), "ff".repeat(32), "11".repeat(31)])
    expect(parsePrivateKey(`0x${outside}`)).toBeUndefined();
});

test("An Ed25519 key is a seed and its public key, and no other public key", () => {
  const { privateKey: generated, publicKey } = generateKeyPairSync("ed25519");
  const { d = "", x = "" } = generated.export({ format: "jwk" });
  const bytes = Buffer.concat([d, x].map((part) => Buffer.from(part, "base64url")));
  const parsed = parseEd25519Key(bytes);
  const text = Buffer.from("text");
  expect(parsed && verify(null, text, publicKey, sign(null, text, parsed))).toBe(true);
  expect(parseEd25519Key(Buffer.concat([bytes.subarray(32), bytes.subarray(32)]))).toBeUndefined();
  expect(parseEd25519Key(bytes.subarray(1))).toBeUndefined();
});
