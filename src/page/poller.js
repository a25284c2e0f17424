/** Factor by which a hidden tab polls less often. */
const HIDDEN_FACTOR = 10;
/** Longest delay after a failure, so that the page notices a recovery soon. */
const RETRY_MS = 3_000;
/** Largest share of the time spent on one question: slow ones are asked less often. */
const MAX_SHARE = 1 / 10;

/** Repeats a question until `signal` aborts. */
export class Poller {
  /** @type {() => Promise<void>} */
  #ask;
  /** @type {number} */
  #everyMs;
  /** @type {(error: unknown) => void} */
  #onError;
  /** @type {AbortSignal} */
  #signal;
  /** @type {number | undefined} */
  #timer;
  #dueAt = 0;
  #isAsking = false;
  #tookMs = 0;

  /**
   * @param {object} options
   * @param {() => Promise<void>} options.ask
   * @param {number} options.everyMs
   * @param {(error: unknown) => void} options.onError
   * @param {AbortSignal} options.signal
   */
  constructor({ ask, everyMs, onError, signal }) {
    this.#ask = ask;
    this.#everyMs = everyMs;
    this.#onError = onError;
    this.#signal = signal;
    signal.addEventListener("abort", () => clearTimeout(this.#timer));
    document.addEventListener("visibilitychange", () => document.hidden || this.soon(0), { signal });
    this.#run();
  }

  /** Brings the next question forward. @param {number} [delayMs] */
  soon(delayMs = 300) {
    const wanted = performance.now() + Math.max(delayMs, this.#tookMs / MAX_SHARE);
    if (wanted >= this.#dueAt) return;
    if (this.#isAsking) this.#dueAt = wanted;
    else this.#schedule(wanted - performance.now());
  }

  /** @param {number} delayMs */
  #schedule(delayMs) {
    if (this.#signal.aborted) return;
    clearTimeout(this.#timer);
    this.#dueAt = performance.now() + delayMs;
    this.#timer = setTimeout(() => this.#run(), delayMs);
  }

  /** Never rejects. */
  async #run() {
    if (this.#isAsking || this.#signal.aborted) return;
    this.#isAsking = true;
    const startedAt = performance.now();
    this.#dueAt = Number.POSITIVE_INFINITY;
    let nextMs = this.#everyMs;
    try {
      await this.#ask();
    } catch (error) {
      nextMs = Math.min(this.#everyMs, RETRY_MS);
      if (!this.#signal.aborted) this.#onError(error);
    }
    this.#tookMs = performance.now() - startedAt;
    this.#isAsking = false;
    const regular = Math.max(nextMs, this.#tookMs / MAX_SHARE) * (document.hidden ? HIDDEN_FACTOR : 1);
    this.#schedule(Math.min(regular, Math.max(0, this.#dueAt - performance.now())));
  }
}
