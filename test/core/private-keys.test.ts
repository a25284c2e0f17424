import { expect, test } from "vitest";
import { decryptKeystore, KeystoreProblem, parsePrivateKey } from "../../src/core/private-keys.ts";
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
