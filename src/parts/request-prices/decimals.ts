/**
 * Number of units that exceeds every maximum, because no configured maximum divided by a price of 10^-18 dollars comes near.
 */
export const TOO_MANY = 10n ** 60n;
/** Digits before the point of numbers below {@link TOO_MANY}. */
const MAX_DIGITS = 60;

const JSON_NUMBER = /^(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/;

/**
 * Returns the started units of a number: 2.01 are 3 units. The number is read as decimal text, because a double would change
 * some numbers.
 * @param text a number of JSON
 * @returns undefined for a negative number, -0 included, and for any other text
 */
export function startedUnits(text: string): bigint | undefined {
  const [, whole, fraction = "", exponent = "0"] = JSON_NUMBER.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const all = whole + fraction;
  const zeros = all.length - all.replace(/^0+/, "").length;
  const digits = all.slice(zeros);
  if (digits === "") return 0n;
  // Rounding exponents of 2^53 and more is harmless, because no body has as many digits.
  const point = whole.length - zeros + Number(exponent);
  if (point <= 0) return 1n;
  if (point > MAX_DIGITS) return TOO_MANY;
  const units = BigInt(digits.slice(0, point).padEnd(point, "0"));
  return /[1-9]/.test(digits.slice(point)) ? units + 1n : units;
}

/** Returns the number of Unicode code points of a text. */
export function codePoints(text: string): number {
  let pairs = 0;
  for (let i = 1; i < text.length; i++) {
    const isPair = isBetween(text.charCodeAt(i - 1), 0xd800, 0xdbff);
    if (isPair && isBetween(text.charCodeAt(i), 0xdc00, 0xdfff)) pairs++;
  }
  return text.length - pairs;
}

function isBetween(code: number, first: number, last: number): boolean {
  return code >= first && code <= last;
}
