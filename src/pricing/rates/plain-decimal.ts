/** More than any rate has; a few bytes of exponent could otherwise stand for gigabytes of zeros. */
const MAX_DIGITS = 100;

/**
 * A number above 0 as JSON writes it, `3.2e3` and all, as a decimal string without exponent, without losing a digit.
 * @returns undefined for what is no number, 0 or below, or would have more than {@link MAX_DIGITS} digits
 */
export function plainDecimal(text: string): string | undefined {
  const match = /^(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  if (match === null) return undefined;
  const [, whole = "", fraction = "", exponent = "0"] = match;
  const digits = whole + fraction;
  const point = whole.length + Number(exponent);
  if (!/[1-9]/.test(digits) || Math.max(digits.length, point, digits.length - point) > MAX_DIGITS) {
    return undefined;
  }
  const before = digits.slice(0, Math.max(0, point)).padEnd(point, "0").replace(/^0+/, "");
  const after = digits
    .slice(Math.max(0, point))
    .padStart(digits.length - point, "0")
    .replace(/0+$/, "");
  return `${before === "" ? "0" : before}${after === "" ? "" : `.${after}`}`;
}
