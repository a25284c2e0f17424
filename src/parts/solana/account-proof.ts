import type { AccountProof } from "../../x402/methods/method.ts";
import { isSignedBy } from "./key.ts";
import { ACCOUNT_BYTES, fromBase58 } from "./portable/addresses.ts";

const SIGNATURE_BYTES = 64;

/**
 * Accounts whose signatures anyone can make. Each is a point of the curve whose order divides 8, written without the
 * bit of its sign. OpenSSL accepts such signatures, and Solana does not.
 */
const SMALL_ORDER: ReadonlySet<string> = new Set([
  "00".repeat(ACCOUNT_BYTES),
  `01${"00".repeat(ACCOUNT_BYTES - 1)}`,
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  ...["ec", "ed", "ee"].map((first) => `${first}${"ff".repeat(ACCOUNT_BYTES - 2)}7f`),
]);

/** Proof of Solana accounts: ed25519 signatures in base58. */
export const SOLANA_PROOF: AccountProof = {
  type: "ed25519",
  accounts: "Solana",
  isAddress(text) {
    const bytes = fromBase58(text, ACCOUNT_BYTES);
    return bytes !== undefined && !hasSmallOrder(bytes);
  },
  isSignature: (text) => fromBase58(text, SIGNATURE_BYTES) !== undefined,
  async isSigned(text, { address, signature }) {
    const bytes = fromBase58(signature, SIGNATURE_BYTES);
    return bytes !== undefined && isSignedBy(address, Buffer.from(text), bytes);
  },
};

function hasSmallOrder(account: Uint8Array): boolean {
  const point = Buffer.from(account);
  point.writeUInt8(point.readUInt8(ACCOUNT_BYTES - 1) & 0x7f, ACCOUNT_BYTES - 1);
  return SMALL_ORDER.has(point.toString("hex"));
}
