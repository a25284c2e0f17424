import type { Clock } from "../core/clock.ts";
import type { ClaimedCall } from "../store/contract/work-queue.ts";
import type { OutLease } from "./lease-table.ts";

/** A runner's Subscribe request with its defaults applied. */
export interface SubscribeRequest {
  readonly subscriber: string;
  readonly maxInFlight: number;
  /** Job filter; empty for all jobs. */
  readonly jobIds: readonly bigint[];
  /** If true, a JobCall is finished once it is written, rather than when it is acked. */
  readonly ackOnSend: boolean;
  /** Length of the stream's leases. Default: the dispatcher's length. */
  readonly leaseMs?: number | undefined;
  /** True if these jobs go only to streams that reserve them. */
  readonly reserves?: boolean;
}

/** Connection to one runner, to which a subscription writes. */
export interface CallSink {
  /**
   * True if the runner finishes its JobCalls over the stream itself. At shutdown, the stream then gets no further JobCalls,
   * and stays open until its last JobCall is finished. Default: false, so the stream ends at once.
   */
  readonly carriesOutcomes?: boolean;
  /**
   * True if a written JobCall counts as an attempt even if this process stops before the JobCall is finished. Default:
   * false.
   */
  readonly countsStops?: boolean;
  /**
   * Writes one JobCall. Calls `onWritten` once the transport has taken it, and never if the stream ends first.
   * @returns false when nothing more may be written until the stream has drained
   */
  write(call: ClaimedCall, onWritten: () => void): boolean;
  /** Ends the stream because this process shuts down. */
  endForShutdown(): void;
  /**
   * Ends the stream because another stream reserves a job that it names. Streams of runners in this process lack the method,
   * because they follow the configuration.
   */
  endForReserved?(jobId: bigint, subscriber: string): void;
}

/** An open stream as the operator sees it. */
export interface RunnerReport {
  readonly subscriber: string;
  /** Empty for all jobs. */
  readonly jobIds: readonly bigint[];
  readonly inFlight: number;
  readonly maxInFlight: number;
  /** Unix milliseconds. */
  readonly connectedSince: number;
  /** True if its jobs go only to streams that reserve them. */
  readonly reserves: boolean;
}

interface Delivery {
  readonly call: ClaimedCall;
  readonly onWritten: () => void;
  /** True while the JobCall waits for {@link Subscription.admit}, possibly in addition to room on the stream. */
  isHeld: boolean;
}

/**
 * Largest number of JobCalls that are claimed for one stream at a time, and that wait for the stream to drain. A reader
 * that has stopped holds up at most this many JobCalls in addition to those already written, however large its
 * `max_in_flight` is.
 */
const MAX_CLAIMED_AHEAD = 64;

/** One runner's stream: its unfinished JobCalls, and its room for more. */
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
  /** JobCalls that wait for the stream to drain, or for admission. Their leases are also in `#out`. */
  readonly #waiting = new Map<OutLease, Delivery>();
  /** The suspect on the stream, if any. While it is unfinished, the stream gets no other JobCall. */
  #suspect: OutLease | undefined;
  /** Leases whose JobCalls the transport has taken. */
  readonly #taken = new WeakSet<OutLease>();
  /** Set while the stream gets no new JobCalls, so that it becomes empty and can take a suspect. */
  #reserved = false;
  #blocked = false;
  #closed = false;
  /** Ends the stream. Set while the stream stays open for its last JobCalls. */
  #endWhenEmpty: (() => void) | undefined;

  constructor(options: {
    readonly request: SubscribeRequest;
    readonly sink: CallSink;
    /** Unix milliseconds. */
    readonly connectedSince: number;
    /** Called when a slot becomes free. */
    readonly onRoom: () => void;
    /** Called when a JobCall of an `ackOnSend` stream is written. */
    readonly onSent: (lease: OutLease) => void;
    /** Called instead of writing a JobCall whose lease has ended. */
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

  /** Changes the limit of unfinished JobCalls. JobCalls already delivered are not recalled. 0 pauses the stream. */
  setMaxInFlight(maxInFlight: number): void {
    const isMore = maxInFlight > this.#maxInFlight;
    this.#maxInFlight = maxInFlight;
    if (isMore) this.#onRoom();
  }

  get isPaused(): boolean {
    return this.#maxInFlight === 0;
  }

  /** Returns the number of JobCalls to claim for the stream now. */
  room(): number {
    if (this.#closed || this.#blocked || this.#isTaken()) return 0;
    return Math.min(this.#maxInFlight - this.#out.size, MAX_CLAIMED_AHEAD);
  }

  /** Returns true if the stream can take one more JobCall, even if the JobCall has to wait until the stream has drained. */
  hasSlot(): boolean {
    if (this.#closed || this.#isTaken()) return false;
    return this.#out.size < this.#maxInFlight && this.#waiting.size < MAX_CLAIMED_AHEAD;
  }

  get inFlight(): number {
    return this.#out.size;
  }

  /** Returns true if the stream can take a suspect, which must be its only unfinished JobCall. */
  canTakeSuspect(): boolean {
    return this.#out.size === 0 && this.hasSlot();
  }

  /** Stops giving the stream new JobCalls until it can take a suspect, or resumes. */
  reserve(reserved: boolean): void {
    this.#reserved = reserved;
  }

  /**
   * Writes a JobCall to the stream, now or once it has drained, and then calls `onWritten`.
   * @param isHeld true if the JobCall also waits for {@link admit}. The JobCall occupies its slot while it waits
   */
  deliver(call: ClaimedCall, lease: OutLease, onWritten: () => void, isHeld = false): void {
    this.#out.add(lease);
    if (call.suspect) this.#suspect = lease;
    const delivery = { call, onWritten, isHeld };
    if (this.#blocked || isHeld) this.#waiting.set(lease, delivery);
    else this.#write(delivery, lease);
  }

  /** Writes a held JobCall, if its lease is still on the stream. */
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

  /** Continues to write, because the stream has taken the earlier messages. */
  drained(): void {
    this.#blocked = false;
    for (const [lease, delivery] of this.#waiting) {
      if (this.#blocked || this.#closed) return;
      if (!delivery.isHeld) this.#writeWaiting(lease, delivery);
    }
    if (!this.#blocked) this.#onRoom();
  }

  /**
   * Ends the stream as {@link CallSink.endForShutdown} does, at once or with its last JobCall.
   * @returns leases whose JobCalls were not written
   */
  shutDown(): OutLease[] {
    return this.#end(() => this.#sink.endForShutdown());
  }

  /**
   * Ends the stream if it names a job that another stream reserves, at once or with its last JobCall. Leases stay valid.
   * @returns leases whose JobCalls were not written
   */
  endForReserved({ reserves = false, jobIds: reserved, subscriber }: SubscribeRequest): OutLease[] {
    const { jobIds, reserves: isReserving = false } = this.#request;
    const jobId = reserves && !isReserving ? reserved.find((id) => jobIds.includes(id)) : undefined;
    if (jobId === undefined || this.#closed || this.#sink.endForReserved === undefined) return [];
    return this.#end(() => this.#sink.endForReserved?.(jobId, subscriber));
  }

  /** Delivers nothing more. @returns leases whose JobCalls were not written */
  #end(end: () => void): OutLease[] {
    if (this.#sink.carriesOutcomes !== true) {
      const { unwritten } = this.close();
      end();
      return unwritten;
    }
    this.#closed = true;
    this.#endWhenEmpty = end;
    const unwritten = [...this.#waiting.keys()];
    this.#waiting.clear();
    this.#endIfEmpty();
    return unwritten;
  }

  /**
   * Drops every lease, and delivers nothing more.
   * @returns leases whose JobCalls were written, and leases whose JobCalls were not
   */
  close(): { written: OutLease[]; unwritten: OutLease[] } {
    this.#closed = true;
    this.#endWhenEmpty = undefined;
    const unwritten = [...this.#waiting.keys()];
    const written = [...this.#out].filter((lease) => !this.#waiting.has(lease));
    for (const lease of this.#out) lease.holder = undefined;
    this.#out.clear();
    this.#waiting.clear();
    return { written, unwritten };
  }

  #endIfEmpty(): void {
    const end = this.#endWhenEmpty;
    if (end === undefined || this.#out.size > 0) return;
    this.#endWhenEmpty = undefined;
    end();
  }

  #isTaken(): boolean {
    return this.#suspect !== undefined || (this.#reserved && this.#out.size > 0);
  }

  #writeWaiting(lease: OutLease, delivery: Delivery): void {
    this.#waiting.delete(lease);
    this.#write(delivery, lease);
  }

  #write({ call, onWritten }: Delivery, lease: OutLease): void {
    // The process may have been suspended, so another runner may have the JobCall by now, or may have finished it.
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
