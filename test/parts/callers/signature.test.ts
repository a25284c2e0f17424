import { hashMessage, keccak256 } from "viem";
import { describe, expect, test } from "vitest";
import {
  isAccountSignature,
  parseSignatureHex,
  recoverSigner,
} from "../../../src/chain/account-signature.ts";
import { callerClaimHash, callerClaimText } from "../../../src/parts/callers/signature.ts";
import { highS } from "../../helpers/caller-claim.ts";

/** Vector made by another implementation. */
const CLAIM = {
  serviceId: 1n,
  jobIndex: 7,
  body: Buffer.from("hello"),
  nonce: "nonce-123",
  expiry: "4102444800",
};
const CALLER = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
const SIGNATURE =
  "0x814d0eea80800217fd84c9cb9daa1b72c17f30745366958bd0e2798190875c145a27d3ce7ab1dfd8937282633c978a81ba053734cc2869d016af6457b3b5c5e81b";
const R_AND_S = SIGNATURE.slice(2, -2);

test("The signed text holds the keccak-256 of the body in hex without 0x", async () => {
  expect(await callerClaimText(CLAIM)).toBe(
    "x402-authorize:1:7:1c8aff950685c2ed4bc3174f3472287b56d9517b9c948127319a09a7a36deac8:nonce-123:4102444800",
  );
  expect(await callerClaimHash(CLAIM)).toBe(hashMessage(await callerClaimText(CLAIM)));
});

test("IDs of any size are written in full", async () => {
  const text = await callerClaimText({ ...CLAIM, serviceId: 2n ** 64n - 1n, jobIndex: 2 ** 32 - 1 });
  expect(text).toMatch(/^x402-authorize:18446744073709551615:4294967295:/);
});

test.each([
  ["no byte", 0],
  ["one block of the hash less a byte", 135],
  ["one block of the hash", 136],
  ["1 MiB", 1_048_576],
])("A body of %s is hashed as wallets hash it", async (_, size) => {
  const body = Buffer.alloc(size, "jobgate");
  expect(await callerClaimText({ ...CLAIM, body })).toContain(`:7:${keccak256(body).slice(2)}:nonce`);
});

test("Claims hashed at once do not mix", async () => {
  const bodies = Array.from({ length: 50 }, (_, i) => Buffer.alloc(i * 1000, i));
  const texts = await Promise.all(bodies.map((body) => callerClaimText({ ...CLAIM, body })));
  expect(texts).toEqual(
    bodies.map((body) => `x402-authorize:1:7:${keccak256(body).slice(2)}:nonce-123:4102444800`),
  );
});

test.each([
  ["with 0x", SIGNATURE],
  ["without 0x", SIGNATURE.slice(2)],
  ["in upper case", `${R_AND_S.toUpperCase()}1B`],
  ["with v as 0", `0x${R_AND_S}00`],
])("The signer is recovered from hex %s", async (_, text) => {
  const signature = parseSignatureHex(text);
  expect(signature && (await recoverSigner(await callerClaimHash(CLAIM), signature))).toBe(CALLER);
});

test.each(["1c", "01"])("v of %s recovers the other key, which is not the caller's", async (v) => {
  const signer = await recoverSigner(await callerClaimHash(CLAIM), `0x${R_AND_S}${v}`);
  expect(signer).toMatch(/^0x[0-9a-f]{40}$/);
  expect(signer).not.toBe(CALLER);
});

test.each([
  ["serviceId", { serviceId: 2n }],
  ["jobIndex", { jobIndex: 8 }],
  ["body", { body: Buffer.from("hello ") }],
  ["nonce", { nonce: "nonce-124" }],
  ["expiry", { expiry: "4102444801" }],
])("A signature over another %s recovers another signer", async (_, change) => {
  const hash = await callerClaimHash({ ...CLAIM, ...change });
  expect(await recoverSigner(hash, SIGNATURE)).not.toBe(CALLER);
});

describe("No plain account can sign", () => {
  test.each([
    ["with a high s", highS(SIGNATURE)],
    ["64 bytes", `0x${R_AND_S}`],
    ["66 bytes", `${SIGNATURE}00`],
    ["with v = 5", `0x${R_AND_S}05`],
    ["with v = 2", `0x${R_AND_S}02`],
    ["with v = 26", `0x${R_AND_S}1a`],
    ["with v = 29", `0x${R_AND_S}1d`],
    ["with s = 0", `0x${R_AND_S.slice(0, 64)}${"0".repeat(64)}1b`],
  ])("%s", async (_, signature) => {
    expect(isAccountSignature(signature as `0x${string}`)).toBe(false);
    expect(await recoverSigner(await callerClaimHash(CLAIM), signature as `0x${string}`)).toBeUndefined();
  });
});

test("The highest low s is accepted, and the one above it is not", () => {
  const withS = (s: string): `0x${string}` => `0x${R_AND_S.slice(0, 64)}${s}1b`;
  const half = "7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a";
  expect(isAccountSignature(withS(`${half}0`))).toBe(true);
  expect(isAccountSignature(withS(`${half}1`))).toBe(false);
});

test("An r that is on no curve point recovers no address and does not throw", async () => {
  const signature: `0x${string}` = `0x${"f".repeat(64)}${R_AND_S.slice(64)}1b`;
  expect(await recoverSigner(await callerClaimHash(CLAIM), signature)).toBeUndefined();
});

test.each(["", "0x", "0xzz", "xyz", "0x0", SIGNATURE.slice(0, -1), ` ${SIGNATURE}`, `0X${R_AND_S}1b`])(
  "%j is not hex of whole bytes",
  (text) => {
    expect(parseSignatureHex(text)).toBeUndefined();
  },
);
