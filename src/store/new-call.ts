import type { JobCallOrigin } from "../core/job-call.ts";

/** A JobCall as it is written: the IDs are text, and all other fields are in the encoded bytes. */
export interface NewCall {
  readonly origin: JobCallOrigin;
  readonly jobId: string;
  readonly serviceId: string;
  encoded: Uint8Array;
  /** Bytes of `encoded` before the body. */
  readonly headBytes: number;
  /** Undefined if runners can run the JobCall beside any other JobCall. */
  readonly order?: KeyOrder | undefined;
}

/** Order of a JobCall as it is written, with owner and key as one text. */
export interface KeyOrder {
  readonly orderKey: string;
  readonly holdsOnDead: boolean;
}

/**
 * Copies byte arrays one after the other into one new buffer, which a message can then transfer.
 * Posting a view directly would copy the whole buffer behind it, for example Node's pool of small Buffers.
 * @returns the buffer, and each array's view into it
 */
export function packBytes(arrays: readonly Uint8Array[]): { buffer: ArrayBuffer; views: Uint8Array[] } {
  const buffer = new ArrayBuffer(arrays.reduce((total, array) => total + array.byteLength, 0));
  let offset = 0;
  const views = arrays.map((array) => {
    const view = new Uint8Array(buffer, offset, array.byteLength);
    view.set(array);
    offset += array.byteLength;
    return view;
  });
  return { buffer, views };
}

/**
 * Count of JobCalls that are not finished (held, ready, leased or waiting for a retry) against their maximum. JobCalls of
 * payments that stay undecided are not counted, because they must not displace work that can be done. The count is kept in
 * memory, because counting the rows for each accept would cost more than the accept.
 */
export class Capacity {
  readonly #maxPending: number;
  #pending: number;
  #uncounted: number;

  /** @param uncounted number of the `pending` JobCalls that are not counted */
  constructor(pending: number, maxPending: number, uncounted = 0) {
    this.#pending = pending;
    this.#maxPending = maxPending;
    this.#uncounted = uncounted;
  }

  get pending(): number {
    return this.#pending;
  }

  /** Number of JobCalls that are compared with the maximum. */
  get counted(): number {
    return this.#pending - this.#uncounted;
  }

  hasRoom(): boolean {
    return this.room() > 0;
  }

  /** Number of further JobCalls that fit. */
  room(): number {
    return Math.max(0, this.#maxPending - this.counted);
  }

  setUncounted(uncounted: number): void {
    this.#uncounted = uncounted;
  }

  /** @param change number of JobCalls that an operation added; negative if it finished them */
  adjust(change: number): void {
    this.#pending += change;
  }

  /** Resets the count after the transaction that adjusted it was rolled back. */
  restore(pending: number): void {
    this.#pending = pending;
  }
}
