import type { JobResult } from "../../store/contract/work-queue.ts";

/** An answer of a paid call that its buyer gets while it arrives. */
export interface LiveAnswer {
  /** Status and headers; `body` is empty. */
  readonly head: JobResult;
  /**
   * Bytes of the answer. The runner is asked for more once the buyer has taken them. They end once the answer is stored, and fail
   * if it breaks off.
   * @param closed aborts when the buyer has left
   */
  bytes(closed: AbortSignal): AsyncIterable<Uint8Array>;
}

/** Answers that begin in this process. */
export interface LiveAnswers {
  /**
   * Notes that a request waits for a call, until its answer begins. Each answer has one taker, who must ask for its bytes: for a
   * second one it never begins.
   * @param closed aborts when the buyer has left, with whom the call may end
   * @param take absent: the request waits for the whole answer
   * @returns a function that ends the wait
   */
  onBegun(callId: number, closed: AbortSignal, take?: (answer: LiveAnswer) => void): () => void;
}
