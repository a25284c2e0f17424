import type { Clock } from "../core/clock.ts";
import type { ClaimedCall } from "../store/contract/work-queue.ts";
import type { OutLease } from "./lease-table.ts";

/** A runner's Subscribe request with its defaults applied. */
export interface SubscribeRequest {
  readonly subscriber: string;
  readonly maxInFlight: number;
  /** Only these jobs; empty means all. */
  readonly jobIds: readonly bigint[];
  /** Finishes a JobCall once it is written, instead of when it is acked. */
  readonly ackOnSend: boolean;
  /** Length of the stream's leases. Default: the length of all other streams'. */
  readonly leaseMs?: number | undefined;
  /** Streams that do not name these jobs get none of them. */
  readonly reserves?: boolean;
}

/** The way to one runner that a subscription writes to. */
export interface CallSink {
  /**
   * Set when the runner finishes its JobCalls over the stream itself: at shutdown, the stream gets no more of them, and
   * stays open until the last is finished. Default: false, the stream ends at once.
   */
  readonly carriesOutcomes?: boolean;
  /** Set if a JobCall that was written is counted as an attempt when this process stops during it. Default: false. */
  readonly countsStops?: boolean;
  /**
   * Writes one JobCall. Calls `onWritten` once the transport has taken it, and never if the stream ends first.
   * @returns false when nothing more may be written until the stream has drained
   */
  write(call: ClaimedCall, onWritten: () => void): boolean;
  /** Ends the stream because this process shuts down. */
  endForShutdown(): void;
}

/** An open stream as the operator sees it. */
export interface RunnerReport {
  readonly subscriber: string;
  /** Empty means all. */
  readonly jobIds: readonly bigint[];
  readonly inFlight: number;
  readonly maxInFlight: number;
  /** Unix milliseconds. */
  readonly connectedSince: number;
  /** Streams that do not name its jobs get none of them. */
  readonly reserves: boolean;
}

interface Delivery {
  readonly call: ClaimedCall;
  readonly onWritten: () => void;
  /** It waits for {@link Subscription.admit}, too. */
  isHeld: boolean;
}

/**
 * Most JobCalls that are claimed for one stream at a time, and that wait for it to drain. A reader that stops holds
 * this many besides those already written, however large its `max_in_flight`.
 */
const MAX_CLAIMED_AHEAD = 64;

/** One runner's stream: the JobCalls that are out on it, and how many more it can take. */
export class Subscription {
  readonly #request: Omit<SubscribeRequest, "maxInFlight">;
  #maxInFlight: number;
  readonly #sink: CallSink;
  readonly #connectedSince: number;
  readonly #onRoom: () => void;
  readonly #onSent: (lease: OutLease) => void;
  readonly #onLate: (lease: OutLease) => void;
  readonly #clock: Clock;
  readonly #out = new Set<OutLease>();
  /** JobCalls that wait for the stream to drain, or to be admitted; their leases are in `#out` too. */
  readonly #waiting = new Map<OutLease, Delivery>();
  /** The suspect that is out, if any: the stream gets no other JobCall meanwhile. */
  #suspect: OutLease | undefined;
  /** Leases whose JobCalls the transport has taken. */
  readonly #taken = new WeakSet<OutLease>();
  /** Set while the stream gets no more JobCalls until all of its own are finished, so that it can take a suspect. */
  #reserved = false;
  #blocked = false;
  #closed = false;
  /** Set at shutdown while the stream stays open for its last JobCalls. */
  #endsWhenEmpty = false;

  constructor(options: {
    readonly request: SubscribeRequest;
    readonly sink: CallSink;
    /** Unix milliseconds. */
    readonly connectedSince: number;
    /** Called when a slot becomes free. */
    readonly onRoom: () => void;
    /** Called when a JobCall of an `ackOnSend` stream is written. */
    readonly onSent: (lease: OutLease) => void;
    /** Called in place of writing a JobCall whose lease is over. */
    readonly onLate: (lease: OutLease) => void;
    /** Clock of the leases. */
    readonly clock: Clock;
  }) {
    this.#request = options.request;
    this.#maxInFlight = options.request.maxInFlight;
    this.#sink = options.sink;
    this.#connectedSince = options.connectedSince;
    this.#onRoom = options.onRoom;
    this.#onSent = options.onSent;
    this.#onLate = options.onLate;
    this.#clock = options.clock;
  }

  get subscriber(): string {
    return this.#request.subscriber;
  }

  report(): RunnerReport {
    const { subscriber, jobIds, reserves = false } = this.#request;
    const [maxInFlight, connectedSince] = [this.#maxInFlight, this.#connectedSince];
    return { subscriber, jobIds, inFlight: this.#out.size, maxInFlight, connectedSince, reserves };
  }

  /** Changes the most JobCalls that may be out at the same time. Those that are out stay out. 0 pauses the stream. */
  setMaxInFlight(maxInFlight: number): void {
    const isMore = maxInFlight > this.#maxInFlight;
    this.#maxInFlight = maxInFlight;
    if (isMore) this.#onRoom();
  }

  get isPaused(): boolean {
    return this.#maxInFlight === 0;
  }

  /** Returns how many JobCalls to claim for the stream now. */
  room(): number {
    if (this.#closed || this.#blocked || this.#isTaken()) return 0;
    return Math.min(this.#maxInFlight - this.#out.size, MAX_CLAIMED_AHEAD);
  }

  /** Returns true when the stream may get one more JobCall, even if that has to wait until the stream has drained. */
  hasSlot(): boolean {
    if (this.#closed || this.#isTaken()) return false;
    return this.#out.size < this.#maxInFlight && this.#waiting.size < MAX_CLAIMED_AHEAD;
  }

  get inFlight(): number {
    return this.#out.size;
  }

  /** Returns true when a suspect may go out on the stream: it must be the only unfinished JobCall there. */
  canTakeSuspect(): boolean {
    return this.#out.size === 0 && this.hasSlot();
  }

  /** Keeps the stream free of new JobCalls until it can take a suspect, or ends that. */
  reserve(reserved: boolean): void {
    this.#reserved = reserved;
  }

  /**
   * Writes a JobCall to the stream, now or once it has drained, and then calls `onWritten`.
   * @param isHeld set when it waits for {@link admit}, too; it takes up its slot meanwhile
   */
  deliver(call: ClaimedCall, lease: OutLease, onWritten: () => void, isHeld = false): void {
    this.#out.add(lease);
    if (call.suspect) this.#suspect = lease;
    const delivery = { call, onWritten, isHeld };
    if (this.#blocked || isHeld) this.#waiting.set(lease, delivery);
    else this.#write(delivery, lease);
  }

  /** Lets a held JobCall go out, if its lease is still here. */
  admit(lease: OutLease): void {
    const delivery = this.#waiting.get(lease);
    if (delivery === undefined) return;
    delivery.isHeld = false;
    if (!this.#blocked) this.#writeWaiting(lease, delivery);
  }

  leaseGone(lease: OutLease): void {
    this.#waiting.delete(lease);
    if (this.#suspect === lease) this.#suspect = undefined;
    if (!this.#out.delete(lease)) return;
    this.#onRoom();
    this.#endIfEmpty();
  }

  countsAtStop(lease: OutLease): boolean {
    return this.#sink.countsStops === true && this.#taken.has(lease);
  }

  /** Goes on writing: the stream has taken what was written before. */
  drained(): void {
    this.#blocked = false;
    for (const [lease, delivery] of this.#waiting) {
      if (this.#blocked || this.#closed) return;
      if (!delivery.isHeld) this.#writeWaiting(lease, delivery);
    }
    if (!this.#blocked) this.#onRoom();
  }

  /**
   * Delivers nothing more. Ends the stream, at once or with its last JobCall.
   * @returns leases whose JobCalls still waited
   */
  shutDown(): OutLease[] {
    if (this.#sink.carriesOutcomes !== true) {
      const { unwritten } = this.close();
      this.#sink.endForShutdown();
      return unwritten;
    }
    this.#closed = true;
    this.#endsWhenEmpty = true;
    const unwritten = [...this.#waiting.keys()];
    this.#waiting.clear();
    this.#endIfEmpty();
    return unwritten;
  }

  /**
   * Lets go of every lease, and delivers nothing more.
   * @returns the leases whose JobCalls were written, and those whose JobCalls still waited
   */
  close(): { written: OutLease[]; unwritten: OutLease[] } {
    this.#closed = true;
    this.#endsWhenEmpty = false;
    const unwritten = [...this.#waiting.keys()];
    const written = [...this.#out].filter((lease) => !this.#waiting.has(lease));
    for (const lease of this.#out) lease.holder = undefined;
    this.#out.clear();
    this.#waiting.clear();
    return { written, unwritten };
  }

  #endIfEmpty(): void {
    if (!this.#endsWhenEmpty || this.#out.size > 0) return;
    this.#endsWhenEmpty = false;
    this.#sink.endForShutdown();
  }

  #isTaken(): boolean {
    return this.#suspect !== undefined || (this.#reserved && this.#out.size > 0);
  }

  #writeWaiting(lease: OutLease, delivery: Delivery): void {
    this.#waiting.delete(lease);
    this.#write(delivery, lease);
  }

  #write({ call, onWritten }: Delivery, lease: OutLease): void {
    // A process that stood still goes on where it was: another runner may have the JobCall by now, or have finished it.
    if (lease.expiresAt <= this.#clock()) {
      this.#onLate(lease);
      return;
    }
    this.#blocked = !this.#sink.write(call, () => {
      this.#taken.add(lease);
      onWritten();
      if (this.#request.ackOnSend) this.#onSent(lease);
    });
  }
}
