import type { Logger } from "pino";
import { Backoff } from "../core/backoff.ts";
import type { Clock } from "../core/clock.ts";
import type { WorkQueue } from "../store/contract/work-queue.ts";

/**
 * Longest wait between two checks. It is also the longest time for which work that another replica added or released
 * goes unnoticed.
 */
const MAX_WAIT_MS = 1_000;
const OVERDUE_WAITS = { firstMs: 10, longestMs: MAX_WAIT_MS };

/** Notices work that becomes due by time alone: expired leases, and retries whose delay is over. */
export class DueWatcher {
  readonly #workQueue: Pick<WorkQueue, "nextDueMs">;
  readonly #onDue: () => void;
  readonly #onOverdue: () => Promise<void>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | undefined;
  #lookAt = Number.POSITIVE_INFINITY;
  #stopped = false;
  /** Delays that grow while no runner takes overdue work, so that the store is not polled without a pause. */
  readonly #overdueWaits = new Backoff(OVERDUE_WAITS);

  constructor(options: {
    readonly workQueue: Pick<WorkQueue, "nextDueMs">;
    /** Called when work may have become due, and at least every second. */
    readonly onDue: () => void;
    /** Called when no stream took due work. */
    readonly onOverdue: () => Promise<void>;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#workQueue = options.workQueue;
    this.#onDue = options.onDue;
    this.#onOverdue = options.onOverdue;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.expect(this.#clock() + MAX_WAIT_MS);
  }

  /** Checks for due work no later than the given time on `clock`. */
  expect(dueAt: number): void {
    if (this.#stopped || dueAt >= this.#lookAt) return;
    clearTimeout(this.#timer);
    this.#lookAt = dueAt;
    this.#timer = setTimeout(() => void this.#look(), Math.max(1, dueAt - this.#clock())).unref();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  async #look(): Promise<void> {
    this.#lookAt = Number.POSITIVE_INFINITY;
    // This call is unconditional because a claim for some jobs may have made JobCalls of other jobs ready without announcing
    // them.
    this.#onDue();
    let waitMs = MAX_WAIT_MS;
    try {
      const dueInMs = (await this.#workQueue.nextDueMs()) ?? Number.POSITIVE_INFINITY;
      if (dueInMs <= 0) {
        waitMs = this.#overdueWaits.next();
        await this.#onOverdue();
      } else {
        waitMs = Math.min(MAX_WAIT_MS, dueInMs);
        this.#overdueWaits.reset();
      }
    } catch (error) {
      this.#logger.warn({ err: error }, "could not read from the store when work becomes due");
    }
    this.expect(this.#clock() + waitMs);
  }
}
