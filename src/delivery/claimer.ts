import type { Clock } from "../core/clock.ts";
import type { JobLimit } from "../core/job-call.ts";
import type { ClaimedCall, WorkQueue } from "../store/contract/work-queue.ts";
import type { Subscription } from "./subscription.ts";

const MAX_CLAIM = 256;

/** Terms of claimed leases. */
export interface ClaimTerms {
  readonly workQueue: Pick<WorkQueue, "claim">;
  readonly leaseMs: number;
  readonly maxAttempts: number;
  /** Monotonic clock. */
  readonly clock: Clock;
  /** Returns the jobs that go only to streams that reserve them. */
  readonly reserved: () => readonly bigint[];
  /** Returns the jobs that currently go to no stream. */
  readonly held: () => readonly bigint[];
  readonly limits: () => readonly JobLimit[];
  /** Called when the rate of a job withholds JobCalls for some milliseconds. */
  readonly onWithheld: (forMs: number) => void;
}

/** JobCalls that a claim returned. */
export interface BroughtCalls {
  readonly claimer: Claimer;
  readonly calls: readonly ClaimedCall[];
  /**
   * End of the leases on this process's clock. In the store, the leases can end later, by the duration of the claim at
   * most.
   */
  readonly expiresAt: number;
  /** Streams that had room when the claim was made. */
  readonly takers: ReadonlySet<Subscription>;
  /** True if the claim searched for suspects and left some that no stream could take; undefined if it did not search. */
  readonly suspectsLeft: boolean | undefined;
  /** Reason why the claim failed; undefined if it did not fail. */
  readonly failure: unknown;
}

/** Claims for all streams with the same job filter and the same length of leases. */
export class Claimer {
  /** Key of the claimer: the lease length, the job filter, and whether the jobs are reserved. */
  readonly key: string;
  /** Job filter; empty means all jobs. */
  readonly jobIds: readonly bigint[];
  /** True if its streams reserve the jobs of the filter. */
  readonly reserves: boolean;
  readonly streams = new Set<Subscription>();
  /** Names of the subscribers that the claimed JobCalls can go to, stored with each lease. */
  subscriber = "";
  readonly #terms: ClaimTerms;
  #mayHaveWork = true;
  #mayHaveSuspects = true;
  /** Set if the last search for suspects left some that no stream could take. */
  #suspectsLeft = false;

  constructor(
    key: string,
    { jobIds, reserves }: { readonly jobIds: readonly bigint[]; readonly reserves: boolean },
    terms: ClaimTerms,
  ) {
    this.key = key;
    this.jobIds = jobIds;
    this.reserves = reserves;
    this.#terms = terms;
  }

  get leaseMs(): number {
    return this.#terms.leaseMs;
  }

  accepts(jobId: bigint): boolean {
    if (!this.reserves && this.#terms.reserved().includes(jobId)) return false;
    return this.jobIds.length === 0 || this.jobIds.includes(jobId);
  }

  /** Returns true if a job can go to streams of both claimers. */
  sharesJobsWith(other: Claimer): boolean {
    if (this.jobIds.length === 0)
      return other.jobIds.length === 0 || other.jobIds.some((id) => this.accepts(id));
    return this.jobIds.some((id) => other.accepts(id));
  }

  /** Returns how many JobCalls its streams can take now. */
  room(): number {
    let room = 0;
    for (const stream of this.streams) room += Math.max(0, stream.room());
    return room;
  }

  /** Notes that there may be work. */
  mayHaveWork({ suspects }: { readonly suspects: boolean }): void {
    this.#mayHaveWork = true;
    if (suspects) this.#mayHaveSuspects = true;
  }

  /** Claims if a stream has room and the last claim left work behind. The promise never rejects. @returns undefined otherwise */
  claim(): Promise<BroughtCalls> | undefined {
    if (!this.#mayHaveWork && !this.#suspectsLeft) return undefined;
    const takers = new Set<Subscription>();
    let [room, forSuspects] = [0, 0];
    for (const stream of this.streams) {
      if (stream.canTakeSuspect()) forSuspects++;
      const ofStream = stream.room();
      if (ofStream > 0) {
        room += ofStream;
        takers.add(stream);
      }
    }
    if (room === 0 || (!this.#mayHaveWork && forSuspects === 0)) return undefined;
    // Without any job ID, the claim would take JobCalls of all jobs.
    if (this.jobIds.length > 0 && this.#openJobIds().length === 0) return undefined;
    return this.#claim(Math.min(room, MAX_CLAIM), takers, forSuspects);
  }

  /** Stops giving JobCalls to the least busy stream while suspects wait for an empty stream. */
  makeRoomForSuspects(suspectsLeft: boolean): void {
    this.#suspectsLeft = suspectsLeft;
    if (suspectsLeft) this.#mayHaveSuspects = true;
    let leastBusy: Subscription | undefined;
    for (const stream of this.streams) {
      stream.reserve(false);
      if (stream.isPaused) continue;
      if (leastBusy === undefined || stream.inFlight < leastBusy.inFlight) leastBusy = stream;
    }
    if (suspectsLeft) leastBusy?.reserve(true);
  }

  /** Returns the jobs that the streams name and can get now. */
  #openJobIds(): readonly bigint[] {
    const closed = this.#closedJobIds();
    return closed.length === 0 ? this.jobIds : this.jobIds.filter((id) => !closed.includes(id));
  }

  #closedJobIds(): readonly bigint[] {
    const { held, reserved } = this.#terms;
    return this.reserves ? held() : [...reserved(), ...held()];
  }

  async #claim(limit: number, takers: ReadonlySet<Subscription>, forSuspects: number): Promise<BroughtCalls> {
    const { workQueue, leaseMs, maxAttempts, clock, limits, onWithheld } = this.#terms;
    const asksForSuspects = this.#mayHaveSuspects;
    // Work that is announced after this line may be too late for this claim. `mayHaveWork` then sets the flag again.
    this.#mayHaveWork = false;
    this.#mayHaveSuspects = false;
    // The lease's end is computed on this process's clock, because the store's clock may differ.
    const expiresAt = clock() + leaseMs;
    try {
      const {
        calls,
        suspectsLeft = false,
        nextInMs,
      } = await workQueue.claim({
        limit,
        jobIds: this.#openJobIds(),
        exceptJobIds: this.#closedJobIds(),
        reserves: this.reserves,
        leaseMs,
        maxAttempts,
        subscriber: this.subscriber,
        suspects: asksForSuspects ? forSuspects : undefined,
        limits: limits(),
      });
      if (nextInMs !== undefined) onWithheld(nextInMs);
      const broughtSuspects = calls[0]?.suspect === true;
      // A claim that returns suspects leaves other work behind.
      if (calls.length === limit || broughtSuspects) this.#mayHaveWork = true;
      if (broughtSuspects) this.#mayHaveSuspects = true;
      const left = asksForSuspects ? suspectsLeft : undefined;
      return { claimer: this, calls, expiresAt, takers, suspectsLeft: left, failure: undefined };
    } catch (failure) {
      this.#mayHaveWork = true;
      this.#mayHaveSuspects = true;
      return { claimer: this, calls: [], expiresAt, takers, suspectsLeft: undefined, failure };
    }
  }
}
