import type { Logger } from "pino";
import { Backoff } from "../core/backoff.ts";
import type { JobLimit } from "../core/job-call.ts";
import type { ClaimedCall } from "../store/contract/work-queue.ts";
import { type BroughtCalls, Claimer, type ClaimTerms } from "./claimer.ts";
import { decodeJobId } from "./job-call-codec.ts";
import type { SubscribeRequest, Subscription } from "./subscription.ts";

const CLAIM_BACKOFF = { firstMs: 100, longestMs: 2_000 };
/** Longest subscriber text that is kept with a lease. */
const MAX_SUBSCRIBER_LENGTH = 200;

interface Member {
  readonly stream: Subscription;
  readonly claimer: Claimer;
  /** Jobs that, while this stream is open, go only to streams that reserve them. */
  readonly reserved: readonly bigint[];
}

/**
 * Claims for all streams, one round at a time, and deals the JobCalls in turn. A round makes one claim for each job filter.
 * If several filters have jobs in common, the first claim takes all JobCalls of these jobs. The round therefore waits for
 * all its claims, and then deals each JobCall to any stream that accepts it.
 */
export class ClaimRounds {
  readonly #terms: ClaimTerms;
  readonly #logger: Logger;
  readonly #deliver: (call: ClaimedCall, expiresAt: number, stream: Subscription) => void;
  readonly #giveBack: (call: ClaimedCall) => void;
  /** Claimers by their keys. */
  readonly #claimers = new Map<string, Claimer>();
  /** All streams, sorted by the time of their last JobCall, the earliest first. */
  readonly #inTurn: Member[] = [];
  #reserved: readonly bigint[] = [];
  #reservedWithoutStream: readonly bigint[] = [];
  #held: readonly bigint[] = [];
  #limits: readonly JobLimit[] = [];
  #round: Promise<void> | undefined;
  readonly #backoff = new Backoff(CLAIM_BACKOFF);
  #backoffTimer: NodeJS.Timeout | undefined;
  #isStarted = false;

  constructor(options: {
    readonly terms: Omit<ClaimTerms, "reserved" | "held" | "limits" | "onWithheld">;
    readonly onWithheld: ClaimTerms["onWithheld"];
    readonly logger: Logger;
    /** @param expiresAt end of the lease on the clock of the terms */
    readonly deliver: (call: ClaimedCall, expiresAt: number, stream: Subscription) => void;
    /** Receives claimed JobCalls that no stream can take any more. */
    readonly giveBack: (call: ClaimedCall) => void;
  }) {
    this.#terms = {
      ...options.terms,
      onWithheld: options.onWithheld,
      reserved: () => this.#reserved,
      held: () => this.#held,
      limits: () => this.#limits,
    };
    this.#logger = options.logger;
    this.#deliver = options.deliver;
    this.#giveBack = options.giveBack;
  }

  /** @param request has the job filter; an empty one means all jobs */
  add(
    stream: Subscription,
    {
      jobIds,
      leaseMs = this.#terms.leaseMs,
      reserves = false,
    }: Pick<SubscribeRequest, "jobIds" | "leaseMs" | "reserves">,
  ): void {
    const sorted = [...new Set(jobIds)].sort((left, right) => (left < right ? -1 : 1));
    const key = `${leaseMs} ${reserves ? "reserves " : ""}${sorted.join()}`;
    const claimer =
      this.#claimers.get(key) ?? new Claimer(key, { jobIds: sorted, reserves }, { ...this.#terms, leaseMs });
    this.#claimers.set(key, claimer);
    claimer.streams.add(stream);
    this.#inTurn.push({ stream, claimer, reserved: reserves ? sorted : [] });
    this.#membersChanged();
    claimer.mayHaveWork({ suspects: false });
    this.roomFreed();
  }

  remove(stream: Subscription): void {
    const index = this.#inTurn.findIndex((member) => member.stream === stream);
    const [removed] = index === -1 ? [] : this.#inTurn.splice(index, 1);
    if (removed === undefined) return;
    const { claimer } = removed;
    claimer.streams.delete(stream);
    if (claimer.streams.size === 0) this.#claimers.delete(claimer.key);
    this.#membersChanged();
  }

  /** Stops claiming JobCalls of these jobs from now on. */
  hold(jobIds: readonly bigint[]): void {
    this.#held = jobIds;
    this.wake({ suspects: true });
  }

  /** Claims JobCalls of these jobs only for streams that reserve them, from now on. */
  reserve(jobIds: readonly bigint[]): void {
    this.#reservedWithoutStream = jobIds;
    this.#membersChanged();
    this.wake({ suspects: true });
  }

  /** Jobs whose JobCalls go only to streams that reserve them. */
  get reserved(): readonly bigint[] {
    return this.#reserved;
  }

  /** Applies limits of jobs from now on. */
  limit(limits: readonly JobLimit[]): void {
    this.#limits = limits;
    this.wake({ suspects: true });
  }

  /** Notes that there may be work, and claims it in the same tick if a stream has room. */
  wake({ suspects = false } = {}): void {
    for (const claimer of this.#claimers.values()) claimer.mayHaveWork({ suspects });
    this.roomFreed();
  }

  /** Claims for the streams that have room, if the last claim left work behind. */
  roomFreed(): void {
    if (!this.#isStarted || this.#round !== undefined || this.#backoffTimer !== undefined) return;
    const claims: Promise<BroughtCalls>[] = [];
    for (const claimer of this.#claimers.values()) {
      const claim = claimer.claim();
      if (claim !== undefined) claims.push(claim);
    }
    if (claims.length > 0) this.#round = this.#run(claims);
  }

  /** Begins to claim. Before that, add the streams that reserve jobs: no other stream may get JobCalls of these jobs. */
  start(): void {
    this.#isStarted = true;
    this.roomFreed();
  }

  /** Stops claiming. JobCalls that a round in progress still claims are released. */
  stop(): void {
    this.#isStarted = false;
    clearTimeout(this.#backoffTimer);
  }

  /** Resolves when no round is in progress. */
  idle(): Promise<void> {
    return this.#round ?? Promise.resolve();
  }

  /** Never rejects, because its claims never reject. */
  async #run(claims: readonly Promise<BroughtCalls>[]): Promise<void> {
    const brought: BroughtCalls[] = [];
    for (const claim of claims) brought.push(await claim);
    let failure = brought.find((claim) => claim.failure !== undefined)?.failure;
    try {
      this.#deal(brought);
    } catch (error) {
      failure = error;
    }
    this.#round = undefined;
    if (failure === undefined) this.#backoff.reset();
    else this.#waitAfter(failure);
    this.roomFreed();
  }

  #waitAfter(error: unknown): void {
    const retryInMs = this.#backoff.next();
    this.#logger.warn({ err: error, retryInMs }, "could not claim work from the store");
    if (!this.#isStarted) return;
    this.#backoffTimer = setTimeout(() => {
      this.#backoffTimer = undefined;
      this.roomFreed();
    }, retryInMs).unref();
  }

  #deal(brought: readonly BroughtCalls[]): void {
    // A claim returns either suspects or other JobCalls. Suspects are dealt first, because each suspect needs a stream
    // without other JobCalls.
    const bringsSuspects = ({ calls }: BroughtCalls) => calls[0]?.suspect === true;
    for (const claim of brought) if (bringsSuspects(claim)) this.#dealSuspects(claim);
    const others = brought.filter((claim) => claim.calls.length > 0 && !bringsSuspects(claim));
    if (this.#claimers.size > 1) this.#share(others);
    else
      for (const claim of others)
        for (const call of claim.calls) this.#handOver(call, claim, this.#takerOf(claim));
    for (const { claimer, suspectsLeft } of brought)
      if (suspectsLeft !== undefined) claimer.makeRoomForSuspects(suspectsLeft);
  }

  #dealSuspects(claim: BroughtCalls): void {
    const canTake = ({ stream, claimer }: Member) => claimer === claim.claimer && stream.canTakeSuspect();
    for (const call of claim.calls) this.#handOver(call, claim, this.#nextInTurn(canTake));
  }

  /**
   * Deals to the streams of all filters. Each filter's streams first get the JobCalls of their own claim. If they have room
   * left, they also get JobCalls that other filters claimed. JobCalls that were claimed for streams that reserve their jobs
   * stay among these streams, because the reservation may have ended since.
   */
  #share(claims: readonly BroughtCalls[]): void {
    const spare = new Map([...this.#claimers.values()].map((claimer) => [claimer, claimer.room()]));
    const use = (claimer: Claimer, room: number) => spare.set(claimer, (spare.get(claimer) ?? 0) - room);
    for (const { claimer, calls } of claims) use(claimer, calls.length);
    const all = claims.flatMap((claim) => claim.calls.map((call) => ({ call, claim })));
    for (const { call, claim } of all.sort((left, right) => left.call.callId - right.call.callId)) {
      const jobId = decodeJobId(call.encoded);
      const { leaseMs, reserves } = claim.claimer;
      const isOpen = (other: Claimer) =>
        (spare.get(other) ?? 0) > 0 &&
        other.accepts(jobId) &&
        other.leaseMs === leaseMs &&
        other.reserves === reserves;
      const taker = this.#takerOf(claim, isOpen);
      this.#handOver(call, claim, taker);
      if (taker !== undefined && taker.claimer !== claim.claimer) use(taker.claimer, 1);
    }
  }

  /**
   * Picks a stream that can write at once. If there is none, picks a stream that could write when the claim was made. A
   * runner that has stopped reading therefore collects no JobCalls.
   * @param isOpen returns true for another claimer whose streams can take the JobCall; default: no other claimer can
   */
  #takerOf(
    { claimer: own, takers }: BroughtCalls,
    isOpen = (_: Claimer): boolean => false,
  ): Member | undefined {
    return (
      this.#nextInTurn(({ stream, claimer }) => (claimer === own || isOpen(claimer)) && stream.room() > 0) ??
      this.#nextInTurn(({ stream }) => takers.has(stream) && stream.hasSlot())
    );
  }

  #handOver(call: ClaimedCall, { expiresAt }: BroughtCalls, taker: Member | undefined): void {
    if (taker === undefined || !this.#isStarted) this.#giveBack(call);
    else this.#deliver(call, expiresAt, taker.stream);
  }

  /** Picks the stream that has waited longest for a JobCall, of the streams that can take one. */
  #nextInTurn(canTake: (candidate: Member) => boolean): Member | undefined {
    const index = this.#inTurn.findIndex(canTake);
    const [taker] = index === -1 ? [] : this.#inTurn.splice(index, 1);
    if (taker !== undefined) this.#inTurn.push(taker);
    return taker;
  }

  #membersChanged(): void {
    this.#reserved = [...this.#reservedWithoutStream, ...this.#inTurn.flatMap(({ reserved }) => reserved)];
    for (const claimer of this.#claimers.values()) {
      const names = this.#inTurn.flatMap((member) =>
        claimer.sharesJobsWith(member.claimer) ? member.stream.subscriber : [],
      );
      claimer.subscriber = [...new Set(names)].join(", ").slice(0, MAX_SUBSCRIBER_LENGTH);
    }
  }
}
