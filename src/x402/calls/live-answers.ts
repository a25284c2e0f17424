import type { JobResult } from "../../store/contract/work-queue.ts";

/** An answer of a paid call that its buyer receives while the runner produces it. */
export interface LiveAnswer {
  /** Status and headers. `body` is empty. */
  readonly head: JobResult;
  /**
   * Returns the bytes of the answer. The runner sends more once the buyer has read the earlier bytes. The iteration ends
   * once the answer is stored, and fails if the answer breaks off.
   * @param closed aborts when the buyer has left
   */
  bytes(closed: AbortSignal): AsyncIterable<Uint8Array>;
}

/** Registry of answers that begin in this process. */
export interface LiveAnswers {
  /**
   * Registers a request that waits for a call's answer to begin. Only one request can receive an answer while the
   * answer arrives, and that request must read the bytes. For other requests the answer never begins.
   * @param closed aborts when the buyer has left, which may end the call
   * @param take receives the answer; undefined if the request waits for the whole answer
   * @returns a function that ends the wait
   */
  onBegun(callId: number, closed: AbortSignal, take?: (answer: LiveAnswer) => void): () => void;
}
