import { byId } from "./dom.js";

/** Shortest time between announcements, so that a screen reader can finish one. */
const QUIET_MS = 4_000;

/** @type {string[]} */
let waiting = [];
/** @type {number | undefined} */
let timer;

/**
 * Announces text to screen readers. Texts that arrive too fast are merged into the last one and a count.
 * @param {string} text
 */
export function announce(text) {
  waiting.push(text);
  if (timer === undefined) speak();
}

function speak() {
  const last = waiting.at(-1);
  if (last === undefined) {
    timer = undefined;
    return;
  }
  const before = waiting.length - 1;
  byId("announcements", HTMLElement).textContent =
    before === 0 ? last : `${last} And ${before} more before it.`;
  waiting = [];
  timer = setTimeout(speak, QUIET_MS);
}
