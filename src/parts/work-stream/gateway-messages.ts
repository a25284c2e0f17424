import { encodeDelivery, lengthDelimited } from "../../delivery/job-call-codec.ts";
import type { GrpcCall } from "../../grpc/grpc-call.ts";
import type { ClaimedCall } from "../../store/contract/work-queue.ts";

/** Bounds on one GatewayMessage. A JobCall with more bytes has a message of its own. */
const MAX_JOB_CALLS = 256;
const MAX_BYTES = 1024 * 1024;
/** Field number of `GatewayMessage.job_calls`. */
const JOB_CALLS = 1;

/** A GatewayMessage that is being filled. */
interface Draft {
  readonly pieces: Uint8Array[];
  readonly listeners: (() => void)[];
  jobCalls: number;
  bytes: number;
}

/** Collects what a Work stream sends in one turn of the event loop, and writes it as few GatewayMessages. */
export class GatewayMessages {
  readonly #call: GrpcCall;
  readonly #leaseMs: number;
  #drafts: Draft[] = [];
  #bytes = 0;

  constructor(call: GrpcCall, leaseMs: number) {
    this.#call = call;
    this.#leaseMs = leaseMs;
  }

  /**
   * Adds a JobCall. Calls `onWritten` once the transport has taken it, and never if the call ends first.
   * @returns false when no more JobCalls may be added until the call has drained
   */
  addJobCall(claimed: ClaimedCall, onWritten: () => void): boolean {
    this.#add(lengthDelimited(JOB_CALLS, encodeDelivery(claimed, this.#leaseMs)), 1, onWritten);
    return this.#call.hasRoom(this.#bytes);
  }

  /** Adds an encoded GatewayMessage of one Statuses. Calls `onWritten` as {@link addJobCall} does. */
  addStatuses(encoded: Uint8Array, onWritten: () => void): void {
    // Concatenated encodings of two messages encode one message with the fields of both.
    this.#add([encoded], 0, onWritten);
  }

  /** Writes everything to the call. */
  flush(): void {
    const drafts = this.#drafts;
    this.#drafts = [];
    this.#bytes = 0;
    for (const { pieces, listeners } of drafts) {
      this.#call.write(pieces, () => {
        for (const listener of listeners) listener();
      });
    }
  }

  #add(pieces: readonly Uint8Array[], jobCalls: number, onWritten: () => void): void {
    let bytes = 0;
    for (const { byteLength } of pieces) bytes += byteLength;
    const draft = this.#draftFor(jobCalls, bytes);
    draft.pieces.push(...pieces);
    draft.listeners.push(onWritten);
    draft.jobCalls += jobCalls;
    draft.bytes += bytes;
    this.#bytes += bytes;
  }

  #draftFor(jobCalls: number, bytes: number): Draft {
    const last = this.#drafts.at(-1);
    if (last !== undefined && last.jobCalls + jobCalls <= MAX_JOB_CALLS && last.bytes + bytes <= MAX_BYTES)
      return last;
    if (last === undefined) process.nextTick(() => this.flush());
    const draft: Draft = { pieces: [], listeners: [], jobCalls: 0, bytes: 0 };
    this.#drafts.push(draft);
    return draft;
  }
}
