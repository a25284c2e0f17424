import type { Logger } from "pino";
import type { ClaimedCall, WorkQueue } from "../store/contract/work-queue.ts";
import type { Subscription } from "./subscription.ts";

export interface ClaimerOptions {
  readonly workQueue: Pick<WorkQueue, "claim">;
  /** The filter that all its streams share; empty means all jobs. */
  readonly jobIds: readonly bigint[];
  readonly leaseMs: number;
  readonly maxAttempts: number;
  readonly logger: Logger;
  /** Puts a claimed JobCall out on a stream. */
  readonly deliver: (call: ClaimedCall, subscription: Subscription) => void;
  /** Takes JobCalls that nobody is left to take. */
  readonly giveBack: (calls: readonly ClaimedCall[]) => void;
}

/** Claims for all the streams that have one filter, with one claim in flight, and deals in turn. */
export interface Claimer {
  add(subscription: Subscription): void;
  remove(subscription: Subscription): void;
  isEmpty(): boolean;
  /** There may be work: claims at once, in this very turn of the event loop, when a stream has room. */
  wake(): void;
  /** A stream has room: claims if the last claim left work behind. */
  roomFreed(): void;
  /** No more claims; what a claim in flight still brings is given back. */
  stop(): void;
  /** Resolves when no claim is in flight. */
  idle(): Promise<void>;
}

const MAX_CLAIM = 256;
const MIN_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 2_000;
/** Of the names that are kept with a lease. */
const MAX_SUBSCRIBER_LENGTH = 200;

export function createClaimer(options: ClaimerOptions): Claimer {
  const { workQueue, jobIds, leaseMs, maxAttempts, logger, deliver, giveBack } = options;
  const ring: Subscription[] = [];
  let subscriber = "";
  let next = 0;
  let inFlight: Promise<void> | undefined;
  let mayHaveWork = true;
  let backoffMs = 0;
  let backoffTimer: NodeJS.Timeout | undefined;
  let stopped = false;

  function pump(): void {
    if (stopped || inFlight !== undefined || backoffTimer !== undefined || !mayHaveWork) return;
    const takers = new Set(ring.filter((subscription) => subscription.room() > 0));
    let room = 0;
    for (const taker of takers) room += taker.room();
    if (room > 0) inFlight = claim(Math.min(room, MAX_CLAIM), takers).finally(claimEnded);
  }

  async function claim(limit: number, takers: ReadonlySet<Subscription>): Promise<void> {
    // Work that is announced from here on may be too late for this claim: `wake` sets it again.
    mayHaveWork = false;
    try {
      const calls = await workQueue.claim({ limit, jobIds, leaseMs, maxAttempts, subscriber });
      backoffMs = 0;
      if (calls.length === limit) mayHaveWork = true;
      deal(calls, takers);
    } catch (error) {
      mayHaveWork = true;
      backoffMs = Math.min(MAX_BACKOFF_MS, Math.max(MIN_BACKOFF_MS, backoffMs * 2));
      logger.warn({ err: error, retryInMs: backoffMs }, "Could not claim work from the store");
    }
  }

  function claimEnded(): void {
    inFlight = undefined;
    if (backoffMs > 0 && !stopped) backoffTimer = setTimeout(backoffEnded, backoffMs).unref();
    pump();
  }

  function backoffEnded(): void {
    backoffTimer = undefined;
    pump();
  }

  function deal(calls: readonly ClaimedCall[], takers: ReadonlySet<Subscription>): void {
    for (const [index, call] of calls.entries()) {
      const subscription = stopped ? undefined : nextTaker(takers);
      if (subscription === undefined) {
        giveBack(calls.slice(index));
        return;
      }
      deliver(call, subscription);
    }
  }

  /** Who can write at once comes first, then who could when the claim was made; a reader that stopped collects nothing. */
  function nextTaker(takers: ReadonlySet<Subscription>): Subscription | undefined {
    return (
      nextInTurn((candidate) => candidate.room() > 0) ??
      nextInTurn((candidate) => takers.has(candidate) && candidate.hasSlot())
    );
  }

  function nextInTurn(canTake: (candidate: Subscription) => boolean): Subscription | undefined {
    for (let step = 0; step < ring.length; step++) {
      const candidate = ring[next % ring.length];
      next = (next + 1) % ring.length;
      if (candidate !== undefined && canTake(candidate)) return candidate;
    }
    return undefined;
  }

  function membersChanged(): void {
    subscriber = [...new Set(ring.map((member) => member.subscriber))]
      .join(", ")
      .slice(0, MAX_SUBSCRIBER_LENGTH);
  }

  return {
    add(subscription) {
      ring.push(subscription);
      membersChanged();
      mayHaveWork = true;
      pump();
    },
    remove(subscription) {
      const index = ring.indexOf(subscription);
      if (index !== -1) ring.splice(index, 1);
      membersChanged();
    },
    isEmpty: () => ring.length === 0,
    wake() {
      mayHaveWork = true;
      pump();
    },
    roomFreed: pump,
    stop() {
      stopped = true;
      clearTimeout(backoffTimer);
    },
    idle: () => inFlight ?? Promise.resolve(),
  };
}
