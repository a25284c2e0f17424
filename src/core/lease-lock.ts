import type { Logger } from "pino";
import { type Clock, monotonicClock } from "./clock.ts";

/** Locks that one process of all replicas holds at a time. */
export interface Locks {
  /**
   * Takes or renews a lock, whose time the store's clock measures. With `forMs` 0, gives up the lock.
   * @param owner unique to a process's life
   * @returns false while another owner holds it
   */
  holdLock(name: string, owner: string, forMs: number): Promise<boolean>;
}

interface Options {
  readonly locks: Locks;
  /** Name of the work that only the holder does, such as sending transactions on a network. */
  readonly name: string;
  readonly owner: string;
  /** Time after which a lock that its holder does not renew is free for other processes. */
  readonly heldMs: number;
  /** Time after which a held lock is renewed. */
  readonly renewMs: number;
  readonly clock?: Clock;
}

/** A lock that ends by itself unless its holder renews it. */
export class LeaseLock {
  readonly #options: Options;
  readonly #clock: Clock;
  /** Undefined while another process may hold the lock. */
  #heldAt: number | undefined;

  constructor(options: Options) {
    this.#options = options;
    this.#clock = options.clock ?? monotonicClock;
  }

  /** Time for which no other process can hold the lock; 0 if another may hold it now. */
  get leftMs(): number {
    if (this.#heldAt === undefined) return 0;
    return Math.max(0, this.#heldAt + this.#options.heldMs - this.#clock());
  }

  /** Takes the lock, or renews it when renewal is due. @returns true if this process holds the lock */
  async hold(): Promise<boolean> {
    const { heldMs, renewMs } = this.#options;
    return this.leftMs > heldMs - renewMs || this.renew();
  }

  /**
   * Takes or renews the lock, and always writes it. Rows that the process read before are then as durable as the lock: a
   * failover that loses those rows also loses the lock.
   * @returns true if this process holds the lock
   */
  async renew(): Promise<boolean> {
    const { locks, name, owner, heldMs } = this.#options;
    const now = this.#clock();
    this.#heldAt = (await locks.holdLock(name, owner, heldMs)) ? now : undefined;
    return this.#heldAt !== undefined;
  }

  /** Lets another process take the lock at once. Never rejects. */
  async giveUp(logger: Logger): Promise<void> {
    const { locks, name, owner } = this.#options;
    if (this.#heldAt === undefined) return;
    this.#heldAt = undefined;
    await locks
      .holdLock(name, owner, 0)
      .catch((error: unknown) => logger.debug({ err: error, lock: name }, "could not release a lock"));
  }
}
