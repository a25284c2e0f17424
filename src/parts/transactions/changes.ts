import { Pause } from "../../core/background-loop.ts";

/** Lets payments wait for changes of their transactions. */
export class Changes {
  readonly #watches = new Map<string, Set<() => void>>();

  /** Wakes the watchers of the transaction. */
  announce(reference: string): void {
    for (const wake of this.#watches.get(reference) ?? []) wake();
  }

  /**
   * Repeats a check until it finds something: after each change, and at intervals in case another process makes the change.
   * @returns undefined once the time is over
   */
  async until<Found>(
    reference: string,
    look: () => Promise<Found | undefined>,
    { pollMs, leftMs }: { readonly pollMs: () => number; readonly leftMs: () => number },
  ): Promise<Found | undefined> {
    const pause = new Pause();
    const onChange = (): void => pause.end();
    const watches = this.#watches.get(reference) ?? new Set();
    this.#watches.set(reference, watches.add(onChange));
    try {
      for (;;) {
        const found = await look();
        if (found !== undefined) return found;
        const waitMs = Math.min(pollMs(), leftMs());
        if (waitMs <= 0) return undefined;
        await pause.wait(waitMs);
      }
    } finally {
      watches.delete(onChange);
      if (watches.size === 0) this.#watches.delete(reference);
    }
  }
}
