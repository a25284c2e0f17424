import { byId } from "./dom.js";

/** Between two announcements: a screen reader has to get to the end of one. */
const QUIET_MS = 4_000;

/** @type {string[]} */
let waiting = [];
/** @type {number | undefined} */
let timer;

/**
 * Says something to who listens rather than looks. What comes too fast is said together, the last and how many.
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
