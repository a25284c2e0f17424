import { createHash } from "node:crypto";
import { boundedCache } from "../../core/bounded-cache.ts";
import { fromBase58, toBase58 } from "./base58.ts";

export const PROGRAMS = {
  token: "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
  associatedToken: "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL",
  computeBudget: "ComputeBudget111111111111111111111111111111",
  memo: "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr",
  /** Assertions that some wallets add, which move nothing. */
  lighthouse: "L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95",
} as const;

/** Bytes of an account. */
export const ACCOUNT_BYTES = 32;

export function isAddress(text: string): boolean {
  return fromBase58(text, ACCOUNT_BYTES) !== undefined;
}

const associated = boundedCache<string, string>(1_000);

/** Returns the account of the SPL Token program that holds a token for its owner. Both are addresses. */
export function tokenAccountOf(owner: string, mint: string): string {
  const key = `${owner} ${mint}`;
  const known = associated.get(key);
  if (known !== undefined) return known;
  const account = derive([owner, PROGRAMS.token, mint].map(bytesOf), bytesOf(PROGRAMS.associatedToken));
  associated.set(key, account);
  return account;
}

/** @throws Error for another text */
export function bytesOf(address: string): Buffer {
  const bytes = fromBase58(address, ACCOUNT_BYTES);
  if (bytes === undefined) throw new Error(`${address} is no account of Solana`);
  return bytes;
}

/** Derives the first address of a program from its seeds that is no point of the curve, so that no key signs for it. */
function derive(seeds: readonly Buffer[], program: Buffer): string {
  for (let bump = 255; bump >= 0; bump--) {
    const hash = createHash("sha256");
    for (const part of [...seeds, Buffer.of(bump), program, Buffer.from("ProgramDerivedAddress")])
      hash.update(part);
    const address = hash.digest();
    if (!isOnCurve(address)) return toBase58(address);
  }
  throw new Error("the seeds have no address");
}

/** The prime of curve 25519, and the constant of its Edwards form. */
const P = 2n ** 255n - 19n;
const D = mod(-121665n * power(121666n, P - 2n));

/** Reports whether 32 bytes are a compressed point: whether (y² - 1) / (dy² + 1) is a square. */
export function isOnCurve(bytes: Uint8Array): boolean {
  const little = Buffer.from(bytes).reverse();
  const isOdd = ((little[0] ?? 0) & 0x80) !== 0;
  little[0] = (little[0] ?? 0) & 0x7f;
  const y = BigInt(`0x${little.toString("hex")}`);
  const square = mod(y * y);
  const xx = mod((square - 1n) * power(mod(D * square + 1n), P - 2n));
  if (xx === 0n) return !isOdd;
  return power(xx, (P - 1n) / 2n) === 1n;
}

function mod(value: bigint): bigint {
  const rest = value % P;
  return rest < 0n ? rest + P : rest;
}

function power(base: bigint, exponent: bigint): bigint {
  let [result, factor] = [1n, mod(base)];
  for (let left = exponent; left > 0n; left >>= 1n) {
    if (left & 1n) result = mod(result * factor);
    factor = mod(factor * factor);
  }
  return result;
}
