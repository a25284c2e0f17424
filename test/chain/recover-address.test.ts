import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { type Hex, hashTypedData, recoverAddress as recoverWithViem } from "viem";
import { privateKeyToAccount, sign } from "viem/accounts";
import { expect, onTestFinished, test } from "vitest";
import {
  RECOVERY_LIBRARY,
  recoverAddress,
  recoverTypedDataAddress,
} from "../../src/chain/recover-address.ts";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import { CLOSED_FACILITATOR, SALES_CONFIG } from "../helpers/small-configs.ts";

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

const hex = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((value) => Buffer.from(value).toString("hex"));
const word = (value: bigint) => value.toString(16).padStart(64, "0");

/** Values of r and s around the limits of what libraries accept, and on no point of the curve. */
const scalar = fc.oneof(
  hex(32),
  fc.constantFrom(
    ...[0n, 1n, 5n, ORDER / 2n, ORDER / 2n + 1n, ORDER - 1n, ORDER, ORDER + 1n, 2n ** 256n - 1n].map(word),
  ),
);
const v = fc.oneof(fc.constantFrom("00", "01", "1b", "1c"), hex(1));
const hash = hex(32).map((digits): Hex => `0x${digits}`);

const privateKey = hex(32).filter((key) => BigInt(`0x${key}`) > 0n && BigInt(`0x${key}`) < ORDER);

/** Returns the address that a library recovers from a signature; "none" for a refusal. */
async function outcomeOf(recover: typeof recoverAddress, signed: { hash: Hex; signature: Hex }) {
  return recover(signed).then(
    (address) => address.toLowerCase(),
    () => "none",
  );
}

async function expectSameAsViem(signed: { hash: Hex; signature: Hex }): Promise<string> {
  const expected = await outcomeOf(recoverWithViem, signed);
  expect(await outcomeOf(recoverAddress, signed)).toBe(expected);
  return expected;
}

test("Signatures, their twins with a high s, and every v recover what viem recovers", async () => {
  const signed = fc.tuple(privateKey, hash, v, fc.boolean());
  await fc.assert(
    fc.asyncProperty(signed, async ([privateKey, hash, otherV, isHigh]) => {
      const account = privateKeyToAccount(`0x${privateKey}`);
      const { r, s, yParity = 0 } = await sign({ hash, privateKey: `0x${privateKey}` });
      const high = word(ORDER - BigInt(s));
      const ownV = [27, 0].map((base) => (base + (isHigh ? 1 - yParity : yParity)).toString(16));
      for (const byte of ownV) {
        const signature: Hex = `0x${r.slice(2)}${isHigh ? high : s.slice(2)}${byte.padStart(2, "0")}`;
        expect(await expectSameAsViem({ hash, signature })).toBe(account.address.toLowerCase());
      }
      await expectSameAsViem({ hash, signature: `0x${r.slice(2)}${s.slice(2)}${otherV}` });
    }),
    { numRuns: 40 },
  );
});

test("Made-up signatures recover what viem recovers, or nothing", async () => {
  const made = fc.record({ r: scalar, s: scalar, v, hash });
  const outcomes = new Set<boolean>();
  await fc.assert(
    fc.asyncProperty(made, async ({ r, s, v, hash }) => {
      outcomes.add((await expectSameAsViem({ hash, signature: `0x${r}${s}${v}` })) === "none");
    }),
    { numRuns: 300 },
  );
  expect(outcomes).toEqual(new Set([true, false]));
});

test("Signatures of other lengths, also compact ones (EIP-2098), recover nothing, as with viem", async () => {
  const hostile = fc.record({ hash, length: fc.integer({ min: 0, max: 140 }), fill: hex(140) });
  await fc.assert(
    fc.asyncProperty(hostile, async ({ hash, length, fill }) => {
      if (length === 65) return;
      expect(await expectSameAsViem({ hash, signature: `0x${fill.slice(0, length * 2)}` })).toBe("none");
    }),
  );
  const compact: Hex = `0x${"1".repeat(64)}8${"1".repeat(63)}`;
  expect(await expectSameAsViem({ hash: `0x${"2".repeat(64)}`, signature: compact })).toBe("none");
});

test("The signer of typed data is recovered", async () => {
  const account = privateKeyToAccount(`0x${"7".repeat(64)}`);
  const typedData = {
    domain: { name: "USDC", version: "2", chainId: 84_532, verifyingContract: account.address },
    types: { Transfer: [{ name: "value", type: "uint256" }] },
    primaryType: "Transfer",
    message: { value: 7n },
  } as const;
  const signature = await account.signTypedData(typedData);
  const address = await recoverTypedDataAddress({ ...typedData, signature });
  expect(address).toBe(account.address.toLowerCase());
  expect(address).toBe(await recoverAddress({ hash: hashTypedData(typedData), signature }));
});

/** Makes Node find no package `secp256k1`, as where it could not be installed. */
const WITHOUT_NATIVE = `
const { Module } = require("node:module");
const resolve = Module._resolveFilename;
Module._resolveFilename = (name, ...rest) => {
  if (name.startsWith("secp256k1")) throw new Error("not installed");
  return resolve(name, ...rest);
};`;

test("The log of a start names the library, which is viem where no native code can be loaded", async () => {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-native-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const hook = join(folder, "without-native.cjs");
  await writeFile(hook, WITHOUT_NATIVE);
  const config = `${SALES_CONFIG}${CLOSED_FACILITATOR}`;
  const libraryOf = async (starting: Promise<Jobgate>) => {
    const jobgate = await starting;
    await jobgate.stop();
    const line = jobgate.logs.find((text) => text.includes("signature recovery"));
    return (JSON.parse(line ?? "{}") as { library?: string }).library;
  };
  const isPrebuilt = ["linux-x64", "darwin-arm64", "win32-x64"].includes(
    `${process.platform}-${process.arch}`,
  );
  expect(await libraryOf(startEmbeddedJobgate({ config }))).toBe(isPrebuilt ? "secp256k1" : RECOVERY_LIBRARY);
  const env = { NODE_OPTIONS: `--require=${hook}` };
  expect(await libraryOf(startJobgate({ config, env, args: ["--log-format", "json"] }))).toBe("viem");
});
