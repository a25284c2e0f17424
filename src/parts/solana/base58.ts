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
