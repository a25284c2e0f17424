/** @import { TailMessage } from "./api.js" */
/** @import { Client } from "./connect.js" */

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/**
 * Reads the stream of events, and opens it again when it breaks, sooner or later. Ends when `signal` aborts.
 * @param {object} options
 * @param {Client} options.client
 * @param {AbortSignal} options.signal
 * @param {(message: TailMessage) => void} options.onMessage
 * @param {(open: boolean) => void} options.onOpen Whether events come in.
 * @param {(error: unknown) => void} options.onError
 */
export async function followTail({ client, signal, onMessage, onOpen, onError }) {
  let waitMs = FIRST_WAIT_MS;
  while (!signal.aborted) {
    try {
      for await (const message of client.tail(signal)) {
        waitMs = FIRST_WAIT_MS;
        onOpen(true);
        onMessage(message);
      }
    } catch (error) {
      if (signal.aborted) return;
      onError(error);
    }
    onOpen(false);
    // Many pages that lost one jobgate do not all come back at the same moment.
    await pause(waitMs * (0.5 + Math.random() / 2), signal);
    waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
  }
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
