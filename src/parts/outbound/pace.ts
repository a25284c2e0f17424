import { backoffMs, withJitter } from "../../core/backoff.ts";

/** Failures in a row after which a target that can be reached is treated as down. */
const FAILURES_UNTIL_DOWN = 10;
const PAUSES = { firstMs: 250, longestMs: 30_000 };

/**
 * Slows down while a target fails: pauses, then sends one request at a time until one does not fail. A target that is
 * down or misconfigured therefore uses up one attempt of a few JobCalls, not all attempts of the whole queue.
 */
export class Pace {
  readonly #onChange: (capacity: number) => void;
  readonly #random: () => number;
  #concurrency: number;
  #failures = 0;
  /** Pauses since the target was up; 0 while the target is up. */
  #pauses = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: {
    /** Most requests in progress while the target is up. */
    readonly concurrency: number;
    /** Receives the most requests that may be in progress from now on. */
    readonly onChange: (capacity: number) => void;
    /** Returns a number in [0, 1), for the jitter. */
    readonly random?: () => number;
  }) {
    this.#concurrency = options.concurrency;
    this.#onChange = options.onChange;
    this.#random = options.random ?? Math.random;
  }

  get isDown(): boolean {
    return this.#pauses > 0;
  }

  /** Records an answer that shows that the target works. */
  succeeded(): void {
    this.#failures = 0;
    if (!this.isDown) return;
    this.stop();
    this.#pauses = 0;
    this.#onChange(this.#concurrency);
  }

  /** Records a failure of the target. Requests that were in progress when a pause began do not make it longer. */
  failed({ reached }: { readonly reached: boolean }): void {
    this.#failures++;
    if (this.#timer !== undefined) return;
    if (!this.isDown && reached && this.#failures < FAILURES_UNTIL_DOWN) return;
    const pauseMs = withJitter(backoffMs(PAUSES, this.#pauses), this.#random());
    this.#pauses++;
    this.#timer = setTimeout(() => this.#probe(), pauseMs).unref();
    this.#onChange(0);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #probe(): void {
    this.#timer = undefined;
    this.#onChange(1);
  }
}
