import type { ClaimedCall } from "../store/contract/work-queue.ts";
import { encodeDelivery } from "./job-call-codec.ts";
import type { LeaseHolder, OutLease } from "./lease-table.ts";

/** Where a subscription's JobCalls are written: a gRPC stream. */
export interface CallSink {
  /**
   * Writes one encoded JobCall; `onWritten` is called once the transport has taken it, and never if the stream ends first.
   * @returns false when nothing more is to be written until the stream has drained
   */
  write(encoded: Buffer, onWritten: () => void): boolean;
  /** Ends the stream because this process goes away. */
  endForShutdown(): void;
}

export interface SubscriptionOptions {
  readonly subscriber: string;
  readonly maxInFlight: number;
  /** Only these jobs; empty means all. */
  readonly jobIds: readonly bigint[];
  /** Done once written, instead of when acked. */
  readonly ackOnSend: boolean;
  readonly sink: CallSink;
}

/** One runner's stream: how much it can take, and what is out on it. */
export interface Subscription extends LeaseHolder {
  readonly subscriber: string;
  /** How many JobCalls are out on it. */
  inFlight(): number;
  /** How many JobCalls to claim for it now. */
  room(): number;
  /** Whether it may be given one more JobCall, even if it has to wait here until the stream has drained. */
  hasSlot(): boolean;
  /** Puts a JobCall out on the stream, now or once it has drained; `onWritten` is called once it is written. */
  deliver(call: ClaimedCall, lease: OutLease, onWritten: () => void): void;
  drained(): void;
  endForShutdown(): void;
  /**
   * Lets go of every lease: nothing is delivered after this.
   * @returns those whose JobCall was written, and those that still waited here
   */
  close(): { written: OutLease[]; unwritten: OutLease[] };
}

interface Delivery {
  readonly call: ClaimedCall;
  readonly onWritten: () => void;
}

/**
 * The most JobCalls that are claimed for one stream at a time, and that wait for it to drain. A reader that stops
 * costs this many, and the 16 that grpc-js takes before its `write` says stop, however large its `max_in_flight`.
 */
const MAX_CLAIMED_AHEAD = 64;

export function createSubscription(
  options: SubscriptionOptions & { readonly onRoom: () => void; readonly onSent: (lease: OutLease) => void },
): Subscription {
  const { maxInFlight, ackOnSend, sink, onRoom, onSent } = options;
  const out = new Set<OutLease>();
  const waiting = new Map<OutLease, Delivery>();
  let blocked = false;
  let closed = false;

  function write({ call, onWritten }: Delivery, lease: OutLease): void {
    blocked = !sink.write(encodeDelivery(call), () => {
      onWritten();
      if (ackOnSend) onSent(lease);
    });
  }

  return {
    subscriber: options.subscriber,
    inFlight: () => out.size,
    room: () => (closed || blocked ? 0 : Math.min(maxInFlight - out.size, MAX_CLAIMED_AHEAD)),
    hasSlot: () => !closed && out.size < maxInFlight && waiting.size < MAX_CLAIMED_AHEAD,
    deliver(call, lease, onWritten) {
      out.add(lease);
      if (blocked) waiting.set(lease, { call, onWritten });
      else write({ call, onWritten }, lease);
    },
    leaseGone(lease) {
      waiting.delete(lease);
      if (out.delete(lease)) onRoom();
    },
    drained() {
      blocked = false;
      for (const [lease, delivery] of waiting) {
        if (blocked || closed) return;
        waiting.delete(lease);
        write(delivery, lease);
      }
      if (!blocked) onRoom();
    },
    endForShutdown: () => sink.endForShutdown(),
    close() {
      closed = true;
      const unwritten = [...waiting.keys()];
      const written = [...out].filter((lease) => !waiting.has(lease));
      for (const lease of out) lease.holder = undefined;
      out.clear();
      waiting.clear();
      return { written, unwritten };
    },
  };
}
