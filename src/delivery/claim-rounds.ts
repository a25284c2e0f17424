import type { Logger } from "pino";
import { Backoff } from "../core/backoff.ts";
import type { ClaimedCall } from "../store/contract/work-queue.ts";
import { type BroughtCalls, Claimer, type ClaimTerms } from "./claimer.ts";
import { decodeJobId } from "./job-call-codec.ts";
import type { Subscription } from "./subscription.ts";

const CLAIM_BACKOFF = { firstMs: 100, longestMs: 2_000 };
/** Longest subscriber text that is kept with a lease. */
const MAX_SUBSCRIBER_LENGTH = 200;

interface Member {
  readonly stream: Subscription;
  readonly claimer: Claimer;
}

/**
 * Claims for all streams, one round at a time, and deals the JobCalls in turn. A round has one claim for each job filter. The
 * first claim of several with jobs in common brings them all, so the JobCalls of a round are dealt to every stream that
 * accepts them once all its claims are answered.
 */
export class ClaimRounds {
  readonly #terms: ClaimTerms;
  readonly #logger: Logger;
  readonly #deliver: (call: ClaimedCall, expiresAt: number, stream: Subscription) => void;
  readonly #giveBack: (call: ClaimedCall) => void;
  /** Claimers by job filter. */
  readonly #claimers = new Map<string, Claimer>();
  readonly #ring: Member[] = [];
  #next = 0;
  #round: Promise<void> | undefined;
  readonly #backoff = new Backoff(CLAIM_BACKOFF);
  #backoffTimer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: {
    readonly terms: ClaimTerms;
    readonly logger: Logger;
    /** @param expiresAt end of the lease by the clock of the terms */
    readonly deliver: (call: ClaimedCall, expiresAt: number, stream: Subscription) => void;
    /** Receives claimed JobCalls that no stream can take any more. */
    readonly giveBack: (call: ClaimedCall) => void;
  }) {
    this.#terms = options.terms;
    this.#logger = options.logger;
    this.#deliver = options.deliver;
    this.#giveBack = options.giveBack;
  }

  /** @param jobIds job filter; empty means all jobs */
  add(stream: Subscription, jobIds: readonly bigint[]): void {
    const sorted = [...new Set(jobIds)].sort((left, right) => (left < right ? -1 : 1));
    const claimer = this.#claimers.get(sorted.join()) ?? new Claimer(sorted, this.#terms);
    this.#claimers.set(sorted.join(), claimer);
    claimer.streams.add(stream);
    this.#ring.push({ stream, claimer });
    this.#nameSubscribers();
    claimer.mayHaveWork({ suspects: false });
    this.roomFreed();
  }

  remove(stream: Subscription): void {
    const index = this.#ring.findIndex((member) => member.stream === stream);
    const [removed] = index === -1 ? [] : this.#ring.splice(index, 1);
    if (removed === undefined) return;
    const { claimer } = removed;
    claimer.streams.delete(stream);
    if (claimer.streams.size === 0) this.#claimers.delete(claimer.jobIds.join());
    this.#nameSubscribers();
  }

  /** Notes that there may be work, and claims in this very turn of the event loop if a stream has room. */
  wake({ suspects = false } = {}): void {
    for (const claimer of this.#claimers.values()) claimer.mayHaveWork({ suspects });
    this.roomFreed();
  }

  /** Claims for the streams that have room, where the last claim left work behind. */
  roomFreed(): void {
    if (this.#stopped || this.#round !== undefined || this.#backoffTimer !== undefined) return;
    const claims = [...this.#claimers.values()].flatMap((claimer) => claimer.claim() ?? []);
    if (claims.length > 0) this.#round = this.#run(claims);
  }

  /** Stops claiming. JobCalls that a round in progress still brings are given back. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#backoffTimer);
  }

  /** Resolves when no round is in progress. */
  idle(): Promise<void> {
    return this.#round ?? Promise.resolve();
  }

  /** Never rejects. */
  async #run(claims: readonly Promise<BroughtCalls>[]): Promise<void> {
    const answers = await Promise.allSettled(claims);
    try {
      this.#deal(answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : [])));
      const failure = answers.find((answer) => answer.status === "rejected");
      if (failure !== undefined) throw failure.reason;
      this.#backoff.reset();
    } catch (error) {
      this.#waitAfter(error);
    }
    this.#round = undefined;
    this.roomFreed();
  }

  #waitAfter(error: unknown): void {
    const retryInMs = this.#backoff.next();
    this.#logger.warn({ err: error, retryInMs }, "Could not claim work from the store");
    if (this.#stopped) return;
    this.#backoffTimer = setTimeout(() => {
      this.#backoffTimer = undefined;
      this.roomFreed();
    }, retryInMs).unref();
  }

  #deal(brought: readonly BroughtCalls[]): void {
    const all = brought.flatMap((claim) => claim.calls.map((call) => ({ call, claim })));
    // Suspects first: each needs a stream that has no other JobCall.
    for (const { call, claim } of all.filter(({ call }) => call.suspect)) this.#dealSuspect(call, claim);
    // Streams of other filters take only what their own claims left room for.
    const spare = new Map([...this.#claimers.values()].map((claimer) => [claimer, claimer.room()]));
    const others = all.filter(({ call }) => !call.suspect);
    const use = (claimer: Claimer) => spare.set(claimer, (spare.get(claimer) ?? 0) - 1);
    for (const { claim } of others) use(claim.claimer);
    for (const { call, claim } of others.sort((left, right) => left.call.callId - right.call.callId)) {
      const jobId = this.#claimers.size > 1 ? decodeJobId(call.encoded) : 0n;
      const isOpen = (other: Claimer) => (spare.get(other) ?? 0) > 0 && other.accepts(jobId);
      const taker = this.#takerOf(claim, isOpen);
      this.#handOver(call, claim, taker);
      if (taker !== undefined && taker.claimer !== claim.claimer) use(taker.claimer);
    }
    for (const { claimer, suspectsLeft } of brought)
      if (suspectsLeft !== undefined) claimer.makeRoomForSuspects(suspectsLeft);
  }

  #dealSuspect(call: ClaimedCall, claim: BroughtCalls): void {
    const canTake = ({ stream, claimer }: Member) => claimer === claim.claimer && stream.canTakeSuspect();
    this.#handOver(call, claim, this.#nextInTurn(canTake));
  }

  /**
   * Picks a stream that can write at once, else one that could when the claim was made. A reader that has stopped
   * therefore collects nothing.
   * @param isOpen returns true for another claimer whose streams can take the JobCall
   */
  #takerOf({ claimer: own, takers }: BroughtCalls, isOpen: (other: Claimer) => boolean): Member | undefined {
    return (
      this.#nextInTurn(({ stream, claimer }) => (claimer === own || isOpen(claimer)) && stream.room() > 0) ??
      this.#nextInTurn(({ stream }) => takers.has(stream) && stream.hasSlot())
    );
  }

  #handOver(call: ClaimedCall, { expiresAt }: BroughtCalls, taker: Member | undefined): void {
    if (taker === undefined || this.#stopped) this.#giveBack(call);
    else this.#deliver(call, expiresAt, taker.stream);
  }

  #nextInTurn(canTake: (candidate: Member) => boolean): Member | undefined {
    for (let step = 0; step < this.#ring.length; step++) {
      const candidate = this.#ring[this.#next % this.#ring.length];
      this.#next = (this.#next + 1) % this.#ring.length;
      if (candidate !== undefined && canTake(candidate)) return candidate;
    }
    return undefined;
  }

  #nameSubscribers(): void {
    for (const claimer of this.#claimers.values()) {
      const names = this.#ring.flatMap((member) =>
        claimer.sharesJobsWith(member.claimer) ? member.stream.subscriber : [],
      );
      claimer.subscriber = [...new Set(names)].join(", ").slice(0, MAX_SUBSCRIBER_LENGTH);
    }
  }
}
