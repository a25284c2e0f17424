export const PROGRAMS = {
  /** Program that makes accounts. */
  system: "11111111111111111111111111111111",
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

/** Returns the number that bytes encode. The first byte is the highest. */
function numberOf(bytes: Uint8Array): bigint {
  return BigInt(`0x0${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`);
}

/** Returns bytes in base58: a number, and one `1` for each leading zero byte. */
export function toBase58(bytes: Uint8Array): string {
  let number = numberOf(bytes);
  let text = "";
  for (; number > 0n; number /= 58n) text = `${ALPHABET[Number(number % 58n)]}${text}`;
  const zeros = bytes.findIndex((byte) => byte !== 0);
  return "1".repeat(zeros < 0 ? bytes.length : zeros) + text;
}

/** Parses base58. @returns undefined for another text, and for other than `length` bytes */
export function fromBase58(text: string, length: number): Uint8Array<ArrayBuffer> | undefined {
  // Every byte takes at least one character, and about 1.37 characters on average.
  if (text.length < length || text.length > length * 2) return undefined;
  let number = 0n;
  for (const char of text) {
    const value = VALUES.get(char);
    if (value === undefined) return undefined;
    number = number * 58n + value;
  }
  const bytes = new Uint8Array(length);
  let at = length;
  for (; number > 0n && at > 0; number >>= 8n) bytes[--at] = Number(number & 255n);
  const zeros = /^1*/.exec(text)?.[0].length ?? 0;
  return number === 0n && zeros === at ? bytes : undefined;
}

export function isAddress(text: string): boolean {
  return fromBase58(text, ACCOUNT_BYTES) !== undefined;
}

/** Returns the bytes of an address. @throws Error for another text */
export function bytesOf(address: string): Uint8Array<ArrayBuffer> {
  const bytes = fromBase58(address, ACCOUNT_BYTES);
  if (bytes === undefined) throw new Error(`${address} is not an account of Solana`);
  return bytes;
}

const DERIVED = new TextEncoder().encode("ProgramDerivedAddress");

/**
 * Yields the inputs of SHA-256 to try for the address of an owner's token account. Each hash is a candidate. The first hash that is
 * not {@link isOnCurve} is the account of the SPL Token program, because no key can sign for it. Both arguments are
 * addresses.
 */
export function* tokenAccountInputs(owner: string, mint: string): Iterable<Uint8Array<ArrayBuffer>> {
  const seeds = [owner, PROGRAMS.token, mint].map(bytesOf);
  for (let bump = 255; bump >= 0; bump--)
    yield joined([...seeds, Uint8Array.of(bump), bytesOf(PROGRAMS.associatedToken), DERIVED]);
}

/** Returns pieces of bytes one after another. */
export function joined(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(pieces.flatMap((piece) => [...piece]));
}

/** The prime of curve 25519, and the constant of its Edwards form. */
const P = 2n ** 255n - 19n;
const D = mod(-121665n * power(121666n, P - 2n));

/** Reports whether 32 bytes are a compressed point of the curve, which is whether (y² - 1) / (dy² + 1) is a square. */
export function isOnCurve(bytes: Uint8Array): boolean {
  const little = numberOf(bytes.toReversed());
  const isOdd = little >> 255n === 1n;
  const y = little & (2n ** 255n - 1n);
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
