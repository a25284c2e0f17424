import type { Logger } from "pino";
import { Backoff } from "../core/backoff.ts";
import type { Clock } from "../core/clock.ts";
import type { ClaimedCall, WorkQueue } from "../store/contract/work-queue.ts";
import type { Subscription } from "./subscription.ts";

const MAX_CLAIM = 256;
const CLAIM_BACKOFF = { firstMs: 100, longestMs: 2_000 };
/** Longest subscriber text that is kept with a lease. */
const MAX_SUBSCRIBER_LENGTH = 200;

/** Claims for all streams with the same job filter, one claim at a time, and deals the JobCalls in turn. */
export class Claimer {
  readonly #workQueue: Pick<WorkQueue, "claim">;
  readonly #jobIds: readonly bigint[];
  readonly #leaseMs: number;
  readonly #maxAttempts: number;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #deliver: (call: ClaimedCall, expiresAt: number, subscription: Subscription) => void;
  readonly #giveBack: (calls: readonly ClaimedCall[]) => void;
  readonly #ring: Subscription[] = [];
  /** Names of all its subscribers, kept with each lease. */
  #subscriber = "";
  #next = 0;
  #claiming: Promise<void> | undefined;
  #mayHaveWork = true;
  #mayHaveSuspects = true;
  /** Set when the last look for suspects left some that no stream could take. */
  #suspectsLeft = false;
  readonly #backoff = new Backoff(CLAIM_BACKOFF);
  /** Delay before the next claim; undefined unless the last claim failed. */
  #retryInMs: number | undefined;
  #backoffTimer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: {
    readonly workQueue: Pick<WorkQueue, "claim">;
    /** Job filter that all its streams share; empty means all jobs. */
    readonly jobIds: readonly bigint[];
    readonly leaseMs: number;
    readonly maxAttempts: number;
    readonly logger: Logger;
    /** Monotonic. */
    readonly clock: Clock;
    /** @param expiresAt end of the lease by `clock`, which the store's may follow by the time that a claim takes */
    readonly deliver: (call: ClaimedCall, expiresAt: number, subscription: Subscription) => void;
    /** Receives claimed JobCalls that no stream can take any more. */
    readonly giveBack: (calls: readonly ClaimedCall[]) => void;
  }) {
    this.#workQueue = options.workQueue;
    this.#jobIds = options.jobIds;
    this.#leaseMs = options.leaseMs;
    this.#maxAttempts = options.maxAttempts;
    this.#logger = options.logger;
    this.#clock = options.clock;
    this.#deliver = options.deliver;
    this.#giveBack = options.giveBack;
  }

  /** Key of the job filter. */
  get key(): string {
    return this.#jobIds.join();
  }

  add(subscription: Subscription): void {
    this.#ring.push(subscription);
    this.#membersChanged();
    this.wake();
  }

  remove(subscription: Subscription): void {
    const index = this.#ring.indexOf(subscription);
    if (index !== -1) this.#ring.splice(index, 1);
    this.#membersChanged();
  }

  isEmpty(): boolean {
    return this.#ring.length === 0;
  }

  /** Notes that there may be work, and claims in this very turn of the event loop if a stream has room. */
  wake({ suspects = false } = {}): void {
    this.#mayHaveWork = true;
    if (suspects) this.#mayHaveSuspects = true;
    this.roomFreed();
  }

  /** Claims if a stream has room and the last claim left work behind. */
  roomFreed(): void {
    if (this.#stopped || this.#claiming !== undefined || this.#backoffTimer !== undefined) return;
    const forSuspects = this.#ring.filter((subscription) => subscription.canTakeSuspect()).length;
    if (!this.#mayHaveWork && !(this.#suspectsLeft && forSuspects > 0)) return;
    const takers = new Set(this.#ring.filter((subscription) => subscription.room() > 0));
    let room = 0;
    for (const taker of takers) room += taker.room();
    if (room === 0) return;
    const limit = Math.min(room, MAX_CLAIM);
    this.#claiming = this.#claim(limit, takers, forSuspects).finally(() => this.#claimEnded());
  }

  /** Stops claiming. JobCalls that a claim in progress still brings are given back. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#backoffTimer);
  }

  /** Resolves when no claim is in progress. */
  idle(): Promise<void> {
    return this.#claiming ?? Promise.resolve();
  }

  async #claim(limit: number, takers: ReadonlySet<Subscription>, forSuspects: number): Promise<void> {
    const asksForSuspects = this.#mayHaveSuspects;
    // Work announced from here on may be too late for this claim; `wake` sets the flag again.
    this.#mayHaveWork = false;
    this.#mayHaveSuspects = false;
    // The store's clock may show another time than this process's.
    const expiresAt = this.#clock() + this.#leaseMs;
    try {
      const { calls, suspectsLeft = false } = await this.#workQueue.claim({
        limit,
        jobIds: this.#jobIds,
        leaseMs: this.#leaseMs,
        maxAttempts: this.#maxAttempts,
        subscriber: this.#subscriber,
        suspects: asksForSuspects ? forSuspects : undefined,
      });
      this.#backoff.reset();
      this.#retryInMs = undefined;
      // A claim that brings suspects leaves the other work behind.
      if (calls.length === limit || calls[0]?.suspect) this.#mayHaveWork = true;
      if (calls[0]?.suspect) this.#mayHaveSuspects = true;
      this.#deal(calls, expiresAt, takers);
      if (asksForSuspects) this.#makeRoomForSuspects(suspectsLeft);
    } catch (error) {
      this.#mayHaveWork = true;
      this.#mayHaveSuspects = true;
      this.#retryInMs = this.#backoff.next();
      this.#logger.warn({ err: error, retryInMs: this.#retryInMs }, "Could not claim work from the store");
    }
  }

  #claimEnded(): void {
    this.#claiming = undefined;
    if (this.#retryInMs !== undefined && !this.#stopped) {
      this.#backoffTimer = setTimeout(() => {
        this.#backoffTimer = undefined;
        this.roomFreed();
      }, this.#retryInMs).unref();
    }
    this.roomFreed();
  }

  #deal(calls: readonly ClaimedCall[], expiresAt: number, takers: ReadonlySet<Subscription>): void {
    for (const [index, call] of calls.entries()) {
      const subscription = this.#stopped ? undefined : this.#takerOf(call, takers);
      if (subscription === undefined) {
        this.#giveBack(calls.slice(index));
        return;
      }
      this.#deliver(call, expiresAt, subscription);
    }
  }

  #takerOf(call: ClaimedCall, takers: ReadonlySet<Subscription>): Subscription | undefined {
    if (call.suspect) return this.#nextInTurn((candidate) => candidate.canTakeSuspect());
    return this.#nextTaker(takers);
  }

  /** Lets the least busy stream run empty while suspects wait for one. */
  #makeRoomForSuspects(suspectsLeft: boolean): void {
    this.#suspectsLeft = suspectsLeft;
    if (suspectsLeft) this.#mayHaveSuspects = true;
    let leastBusy: Subscription | undefined;
    for (const subscription of this.#ring) {
      subscription.reserve(false);
      if (subscription.isPaused) continue;
      if (leastBusy === undefined || subscription.inFlight < leastBusy.inFlight) leastBusy = subscription;
    }
    if (suspectsLeft) leastBusy?.reserve(true);
  }

  /**
   * Picks a stream that can write at once, else one that could when the claim was made. A reader that has stopped
   * therefore collects nothing.
   */
  #nextTaker(takers: ReadonlySet<Subscription>): Subscription | undefined {
    return (
      this.#nextInTurn((candidate) => candidate.room() > 0) ??
      this.#nextInTurn((candidate) => takers.has(candidate) && candidate.hasSlot())
    );
  }

  #nextInTurn(canTake: (candidate: Subscription) => boolean): Subscription | undefined {
    for (let step = 0; step < this.#ring.length; step++) {
      const candidate = this.#ring[this.#next % this.#ring.length];
      this.#next = (this.#next + 1) % this.#ring.length;
      if (candidate !== undefined && canTake(candidate)) return candidate;
    }
    return undefined;
  }

  #membersChanged(): void {
    this.#subscriber = [...new Set(this.#ring.map((member) => member.subscriber))]
      .join(", ")
      .slice(0, MAX_SUBSCRIBER_LENGTH);
  }
}
