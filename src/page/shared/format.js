const COUNT = new Intl.NumberFormat("en");
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const MINUTE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
/** Units and their seconds. @type {readonly [string, number][]} */
const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
];

/** @param {number | bigint} count */
export function countText(count) {
  return COUNT.format(count);
}

/** @param {number} count @param {string} one @param {string} [many] */
export function plural(count, one, many = `${one}s`) {
  return `${countText(count)} ${count === 1 ? one : many}`;
}

/**
 * Separates the thousands of the number that a text begins with: `1234567.5 USDC` is `1,234,567.5 USDC`.
 * @param {string} text
 */
export function grouped(text) {
  return text.replace(/^-?\d{4,}/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));
}

/** Formats a time span in one unit: `12 s`, `3 min`, `5 h`, `2 d`. @param {number} ms */
export function spanText(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3_600) return `${Math.floor(seconds / 3_600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/**
 * Formats a JSON duration (`1.500s`) exactly, in the largest unit that divides it.
 * @param {string} duration
 */
export function durationText(duration) {
  const seconds = Number(duration.replace("s", ""));
  const [unit, length] = UNITS.find(([, length]) => seconds > 0 && seconds % length === 0) ?? ["s", 1];
  return `${countText(seconds / length)} ${unit}`;
}

/** Formats a time in the reader's zone. @param {string | number} time */
export function momentText(time) {
  return MOMENT.format(new Date(time));
}

/** Formats a time to the minute. @param {number} time */
export function minuteText(time) {
  return MINUTE.format(new Date(time));
}

/**
 * Formats token units as whole tokens, exactly: `3264000` with 6 decimals is `3.264`.
 * @param {bigint} units
 * @param {number} decimals
 */
export function exactAmount(units, decimals) {
  const digits = String(units).padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, "");
  return fraction === "" ? COUNT.format(BigInt(whole)) : `${COUNT.format(BigInt(whole))}.${fraction}`;
}
