/** In a tab that nobody looks at, everything takes so many times as long. */
const HIDDEN_FACTOR = 10;
/** After a failure, however seldom the question is asked: what is wrong is to be gone once it is. */
const TRY_AGAIN_MS = 3_000;
/** A question that took long is asked less often: at most this share of the time is spent on it. */
const MAX_SHARE = 1 / 10;

/**
 * Asks again and again until `signal` aborts. Never rejects; what goes wrong is for `onError`.
 * @param {object} options
 * @param {() => Promise<void>} options.ask
 * @param {number} options.everyMs
 * @param {(error: unknown) => void} options.onError
 * @param {AbortSignal} options.signal
 * @returns {{ soon(delayMs?: number): void }} `soon` brings the next question forward
 */
export function createPoller({ ask, everyMs, onError, signal }) {
  /** @type {number | undefined} */
  let timer;
  let dueAt = 0;
  let asking = false;
  let tookMs = 0;

  /** @param {number} delayMs */
  function schedule(delayMs) {
    if (signal.aborted) return;
    clearTimeout(timer);
    dueAt = performance.now() + delayMs;
    timer = setTimeout(run, delayMs);
  }

  async function run() {
    if (asking || signal.aborted) return;
    asking = true;
    const startedAt = performance.now();
    dueAt = Number.POSITIVE_INFINITY;
    let nextMs = everyMs;
    try {
      await ask();
    } catch (error) {
      nextMs = Math.min(everyMs, TRY_AGAIN_MS);
      if (!signal.aborted) onError(error);
    }
    tookMs = performance.now() - startedAt;
    asking = false;
    const regular = Math.max(nextMs, tookMs / MAX_SHARE) * (document.hidden ? HIDDEN_FACTOR : 1);
    schedule(Math.min(regular, Math.max(0, dueAt - performance.now())));
  }

  /** @param {number} [delayMs] */
  function soon(delayMs = 300) {
    const wanted = performance.now() + Math.max(delayMs, tookMs / MAX_SHARE);
    if (wanted >= dueAt) return;
    if (asking) dueAt = wanted;
    else schedule(wanted - performance.now());
  }

  signal.addEventListener("abort", () => clearTimeout(timer));
  document.addEventListener("visibilitychange", () => document.hidden || soon(0), { signal });
  run();
  return { soon };
}
