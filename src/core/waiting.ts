/** Longest time that a timer of Node waits. A longer one ends at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** The pause of a loop between two steps, which can end early. */
export class Pause {
  #hasEnded = false;
  #wake = (): void => undefined;

  /** Waits, unless the pause was ended since the last one. */
  async wait(ms: number): Promise<void> {
    if (!this.#hasEnded) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#hasEnded = false;
  }

  /** Forgets an end that no pause has seen yet. */
  reset(): void {
    this.#hasEnded = false;
  }

  end(): void {
    this.#hasEnded = true;
    this.#wake();
  }
}

/** Returns the result of the work; undefined when it takes longer. The work goes on. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, ms, undefined);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
