import { h, setText } from "./dom.js";

const COUNT = new Intl.NumberFormat("en");
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const MINUTE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
/** Units and their seconds. @type {readonly [string, number][]} */
const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
];
/** Decimals that are shown; titles have all of them. */
const SHOWN_DECIMALS = 6;

/** @param {number | string} count */
export function countText(count) {
  return COUNT.format(typeof count === "string" ? BigInt(count) : count);
}

/** @param {number} count @param {string} one @param {string} [many] */
export function plural(count, one, many = `${one}s`) {
  return `${countText(count)} ${count === 1 ? one : many}`;
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
function momentText(time) {
  return MOMENT.format(new Date(time));
}

/** Formats a time to the minute. @param {number} time */
export function minuteText(time) {
  return MINUTE.format(new Date(time));
}

/**
 * Element with the time since `time`, kept current by {@link refreshTimes}; its title has the exact time.
 * @param {string | undefined} time
 * @param {string} [suffix]
 */
export function ago(time, suffix = " ago") {
  if (time === undefined) return h("span", {}, "–");
  const element = h("time", { datetime: time, title: momentText(time), "data-suffix": suffix });
  refreshTime(element);
  return element;
}

/** Updates every {@link ago} on the page. */
export function refreshTimes() {
  for (const element of document.querySelectorAll("time")) refreshTime(element);
}

/** @param {HTMLTimeElement} element */
function refreshTime(element) {
  const { suffix = "" } = element.dataset;
  setText(element, `${spanText(Date.now() - Date.parse(element.dateTime))}${suffix}`);
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

/**
 * Formats token units as whole tokens, cut to a few decimals.
 * @param {bigint} units
 * @param {number} decimals
 */
export function shortAmount(units, decimals) {
  const exact = exactAmount(units, decimals);
  const point = exact.indexOf(".");
  if (point < 0 || exact.length - point - 1 <= SHOWN_DECIMALS) return exact;
  const cut = exact.slice(0, point + 1 + SHOWN_DECIMALS);
  return /[1-9]/.test(cut) ? `${cut}…` : `< 0.${"0".repeat(SHOWN_DECIMALS - 1)}1`;
}

/** Element with a shortened address or hash, and all of it as title. @param {string} hex */
export function shortHex(hex) {
  const text = hex.length > 14 ? `${hex.slice(0, 8)}…${hex.slice(-4)}` : hex;
  return h("span", { class: "mono", title: hex }, text);
}
