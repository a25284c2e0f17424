import { boundedCache } from "../../core/bounded-cache.ts";

/** Share of the process's time that checks of bodies may take, and how much of it may be used at once. */
interface Allowance {
  readonly share: number;
  readonly burstMs: number;
}
const OF_CLIENT: Allowance = { share: 0.1, burstMs: 50 };
const OF_ALL: Allowance = { share: 0.2, burstMs: 100 };

/** Bound on the clients whose time is remembered. */
const MAX_CLIENTS = 10_000;
/**
 * Time after a slow body within which no body of its client is checked, as long as all clients together have used up
 * their time.
 */
const SUSPECT_MS = 10_000;

/** Time that was used and not yet earned back, as of a moment. */
interface Account {
  readonly owedMs: number;
  readonly atMs: number;
  /** Time at which the last slow body came. */
  readonly slowAtMs: number;
}
const EMPTY: Account = { owedMs: 0, atMs: 0, slowAtMs: Number.NEGATIVE_INFINITY };

/**
 * Bounds the time that slow checks of bodies take, for each client and for all clients together. `now` is in
 * milliseconds.
 */
export class CheckBudget {
  readonly #clients = boundedCache<string, Account>(MAX_CLIENTS);
  #all = EMPTY;

  /**
   * Returns the time that a client has to wait until its next body is checked; undefined if the body can be checked now. If
   * all clients together have used up their time, bodies of clients that sent no slow body are still checked.
   * @param isSlow true if the check of the body is known to take long
   */
  waitMs(client: string, now: number, isSlow = false): number | undefined {
    const own = this.ownWaitMs(client, now);
    if (own !== undefined) return own;
    const { slowAtMs } = this.#clients.get(client) ?? EMPTY;
    const all = this.#excessOfAll(now);
    if (all <= 0 || !(isSlow || now - slowAtMs < SUSPECT_MS)) return undefined;
    return all / OF_ALL.share;
  }

  /** Returns the time that {@link waitMs} would return for the client's own allowance alone. */
  ownWaitMs(client: string, now: number): number | undefined {
    const own = owed(this.#clients.get(client) ?? EMPTY, OF_CLIENT, now) - OF_CLIENT.burstMs;
    return own > 0 ? own / OF_CLIENT.share : undefined;
  }

  /** Reports whether all clients together have used their time. */
  isUsedUp(now: number): boolean {
    return this.#excessOfAll(now) > 0;
  }

  /** Counts the time of a check; a negative time corrects an earlier count. */
  spend(client: string, ms: number, now: number, isSlow = false): void {
    const account = this.#clients.get(client) ?? EMPTY;
    const slowAtMs = isSlow ? now : account.slowAtMs;
    this.#clients.set(client, { owedMs: owed(account, OF_CLIENT, now) + ms, atMs: now, slowAtMs });
    this.#all = { ...EMPTY, owedMs: owed(this.#all, OF_ALL, now) + ms, atMs: now };
  }

  #excessOfAll(now: number): number {
    return owed(this.#all, OF_ALL, now) - OF_ALL.burstMs;
  }
}

function owed({ owedMs, atMs }: Account, { share }: Allowance, now: number): number {
  return Math.max(0, owedMs - (now - atMs) * share);
}
