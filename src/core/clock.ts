/** Current time in Unix milliseconds. Always an argument, so that tests control it. */
export type Clock = () => number;

export const systemClock: Clock = () => Date.now();

/**
 * Milliseconds on the monotonic clock, for durations inside this process. It starts at the wall clock's time and does not
 * follow its corrections.
 */
export const monotonicClock: Clock = () => performance.timeOrigin + performance.now();

/** Smaller differences are drift. */
const MIN_STEP_MS = 1_000;

/** Detects that the wall clock was set. */
export class ClockSteps {
  readonly #wall: Clock;
  readonly #monotonic: Clock;
  #offsetMs: number;

  constructor(wall: Clock, monotonic: Clock) {
    this.#wall = wall;
    this.#monotonic = monotonic;
    this.#offsetMs = wall() - monotonic();
  }

  /** Returns how far the wall clock was set since the last call: negative if it was set back, 0 if it was not set. */
  take(): number {
    const offsetMs = this.#wall() - this.#monotonic();
    const stepMs = Math.round(offsetMs - this.#offsetMs);
    if (Math.abs(stepMs) < MIN_STEP_MS) return 0;
    this.#offsetMs = offsetMs;
    return stepMs;
  }
}
