/** @import { TailMessage } from "./api.js" */
/** @import { Client } from "./connect.js" */

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
/** Hidden tabs close their stream after this time: browsers open only six connections to one server. */
const KEPT_WHEN_HIDDEN_MS = 20_000;
/** jobgate sends a message every 20 s: after this silence the connection is lost. */
const LONGEST_SILENCE_MS = 60_000;

/**
 * Reads the event stream while the tab is visible, and reopens it with backoff when it breaks. Ends when `signal`
 * aborts.
 * @param {object} options
 * @param {Client} options.client
 * @param {AbortSignal} options.signal
 * @param {(message: TailMessage) => void} options.onMessage
 * @param {(isOpen: boolean) => void} options.onOpen
 * @param {(error: unknown) => void} options.onError
 */
export async function followTail({ client, signal, onMessage, onOpen, onError }) {
  let waitMs = FIRST_WAIT_MS;
  while (!signal.aborted) {
    const stream = watchStream(signal);
    try {
      for await (const message of client.tail(stream.signal)) {
        stream.heard();
        waitMs = FIRST_WAIT_MS;
        onOpen(true);
        onMessage(message);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!stream.signal.aborted) onError(error);
    }
    stream.stop();
    onOpen(false);
    // Jitter keeps many pages from reconnecting at the same moment.
    await pause(waitMs * (0.5 + Math.random() / 2), signal);
    waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
    await visible(signal);
  }
}

/**
 * @param {AbortSignal} closed
 * @returns {{ signal: AbortSignal, heard: () => void, stop: () => void }} `signal` aborts once the tab has been hidden
 *   for a while, or the stream has been silent for too long
 */
function watchStream(closed) {
  const controller = new AbortController();
  const watching = new AbortController();
  const abort = () => controller.abort();
  /** @type {number | undefined} */
  let hidden;
  /** @type {number | undefined} */
  let silence;
  const look = () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(abort, KEPT_WHEN_HIDDEN_MS);
  };
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(abort, LONGEST_SILENCE_MS);
  };
  const signal = AbortSignal.any([closed, watching.signal]);
  document.addEventListener("visibilitychange", look, { signal });
  look();
  heard();
  return {
    signal: controller.signal,
    heard,
    stop() {
      clearTimeout(hidden);
      clearTimeout(silence);
      watching.abort();
    },
  };
}

/** Resolves once the tab is visible. @param {AbortSignal} signal @returns {Promise<void>} */
function visible(signal) {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look, { once: true });
    look();
  });
}

/** @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
