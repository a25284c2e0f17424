/* Take the place of Node's time and chance in the bundled gateway. */
import { simulation } from "./simulation.ts";

class Timer {
  readonly #delayMs: number;
  readonly #run: (timer: Timer) => void;
  #event: { cancel(): void };

  constructor(delayMs: number, run: (timer: Timer) => void) {
    this.#delayMs = delayMs;
    this.#run = run;
    this.#event = this.#schedule();
  }

  refresh(): this {
    this.#event.cancel();
    this.#event = this.#schedule();
    return this;
  }

  cancel(): void {
    this.#event.cancel();
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }

  #schedule(): { cancel(): void } {
    const run = simulation();
    return run.at(this.#delayMs, run.current, () => this.#run(this));
  }
}

type Callback = (...args: unknown[]) => void;

export function setTimeout(run: Callback, delayMs = 0, ...args: unknown[]): Timer {
  return new Timer(Math.max(1, Number(delayMs) || 1), () => run(...args));
}

export function setInterval(run: Callback, delayMs = 0, ...args: unknown[]): Timer {
  return new Timer(Math.max(1, Number(delayMs) || 1), (timer) => {
    timer.refresh();
    run(...args);
  });
}

export function setImmediate(run: Callback, ...args: unknown[]): Timer {
  return new Timer(0, () => run(...args));
}

export function clearTimeout(timer: Timer | undefined): void {
  timer?.cancel();
}

export { clearTimeout as clearImmediate, clearTimeout as clearInterval };

class VirtualDate extends globalThis.Date {
  constructor(...args: unknown[]) {
    super(...((args.length === 0 ? [simulation().wallMs] : args) as [number]));
  }

  static override now(): number {
    return simulation().wallMs;
  }
}

export { VirtualDate as Date };

export const performance = { timeOrigin: 0, now: () => simulation().now };

/** Takes the place of `Math.random`. */
export function seededRandom(): number {
  return simulation().random("Math.random");
}
