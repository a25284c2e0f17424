import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";

export interface DueWatcherOptions {
  /** When the earliest lease or retry delay runs out, Unix milliseconds. */
  readonly nextDue: () => Promise<number | undefined>;
  /** Called when something may have become due, and at least every second. */
  readonly onDue: () => void;
  /** Called when what became due was taken by nobody. */
  readonly onOverdue: () => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Notices work that becomes due by time alone: leases that ran out, retries whose delay is over. */
export interface DueWatcher {
  /** Something becomes due then, Unix milliseconds. */
  expect(dueAt: number): void;
  stop(): void;
}

/** Also the longest that work given out or given back by another replica goes unnoticed. */
const MAX_WAIT_MS = 1_000;
const MIN_WAIT_MS = 10;

export function createDueWatcher(options: DueWatcherOptions): DueWatcher {
  const { nextDue, onDue, onOverdue, clock, logger } = options;
  let timer: NodeJS.Timeout | undefined;
  let lookAt = Number.POSITIVE_INFINITY;
  let stopped = false;
  /** Grows while nobody takes what is due, so that it is not looked at without end. */
  let overdueWaitMs = MIN_WAIT_MS;

  function lookBy(at: number): void {
    if (stopped || at >= lookAt) return;
    clearTimeout(timer);
    lookAt = at;
    timer = setTimeout(() => void look(), Math.max(1, at - clock())).unref();
  }

  async function look(): Promise<void> {
    lookAt = Number.POSITIVE_INFINITY;
    // Whatever the store says is due next: a claim for some jobs may have made others ready that nobody heard of.
    onDue();
    let waitMs = MAX_WAIT_MS;
    try {
      const dueAt = await nextDue();
      const overdue = dueAt !== undefined && dueAt <= clock();
      if (overdue) {
        waitMs = overdueWaitMs;
        await onOverdue();
      }
      if (!overdue && dueAt !== undefined) waitMs = Math.min(MAX_WAIT_MS, dueAt - clock());
      overdueWaitMs = overdue ? Math.min(MAX_WAIT_MS, overdueWaitMs * 2) : MIN_WAIT_MS;
    } catch (error) {
      logger.warn({ err: error }, "Could not ask the store when work becomes due");
    }
    lookBy(clock() + waitMs);
  }

  lookBy(clock() + MAX_WAIT_MS);
  return {
    expect: lookBy,
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
