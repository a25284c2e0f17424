import { createHash } from "node:crypto";
import { boundedCache } from "../../core/bounded-cache.ts";

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

const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const VALUES: ReadonlyMap<string, bigint> = new Map([...ALPHABET].map((char, i) => [char, BigInt(i)]));

/** Returns bytes in base58: a number, and one `1` for each leading zero byte. */
export function toBase58(bytes: Uint8Array): string {
  let number = BigInt(`0x0${Buffer.from(bytes).toString("hex")}`);
  let text = "";
  for (; number > 0n; number /= 58n) text = `${ALPHABET[Number(number % 58n)]}${text}`;
  const zeros = bytes.findIndex((byte) => byte !== 0);
  return "1".repeat(zeros < 0 ? bytes.length : zeros) + text;
}

/** Parses base58. @returns undefined for another text, and for other than `length` bytes */
export function fromBase58(text: string, length: number): Buffer | undefined {
  // Every byte takes at least one character, and about 1.37.
  if (text.length < length || text.length > length * 2) return undefined;
  let number = 0n;
  for (const char of text) {
    const value = VALUES.get(char);
    if (value === undefined) return undefined;
    number = number * 58n + value;
  }
  const hex = number === 0n ? "" : number.toString(16);
  const digits = Buffer.from(hex.padStart(hex.length + (hex.length % 2), "0"), "hex");
  const zeros = /^1*/.exec(text)?.[0].length ?? 0;
  if (zeros + digits.length !== length) return undefined;
  return Buffer.concat([Buffer.alloc(zeros), digits]);
}

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

/** Returns the bytes of an address. @throws Error for another text */
export function bytesOf(address: string): Buffer {
  const bytes = fromBase58(address, ACCOUNT_BYTES);
  if (bytes === undefined) throw new Error(`${address} is no account of Solana`);
  return bytes;
}

/** Derives an address of a program from seeds: the first that is no point of the curve, so that no key can sign for it. */
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

/** Reports whether 32 bytes are a compressed point of the curve, which is whether (y² - 1) / (dy² + 1) is a square. */
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
