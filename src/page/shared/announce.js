import { byId } from "./dom.js";

/** Shortest time between announcements, so that a screen reader can finish one. */
const QUIET_MS = 4_000;

/** @type {string[]} */
let outcomes = [];
/** @type {string[]} */
let events = [];
/** @type {number | undefined} */
let timer;

/**
 * Announces the outcome of an action to screen readers. Every outcome is announced, however many events arrive.
 * @param {string} text
 */
export function announce(text) {
  outcomes.push(text);
  if (timer === undefined) speak();
}

/**
 * Announces an event to screen readers. Events that arrive too fast are merged into the last one and a count.
 * @param {string} text
 */
export function announceEvent(text) {
  events.push(text);
  if (timer === undefined) speak();
}

function speak() {
  const texts = [...outcomes, ...events.slice(-1)];
  if (events.length > 1) texts.push(`And ${events.length - 1} more before it.`);
  if (texts.length === 0) {
    timer = undefined;
    return;
  }
  byId("announcements", HTMLElement).textContent = texts.join(" ");
  outcomes = [];
  events = [];
  timer = setTimeout(speak, QUIET_MS);
}
