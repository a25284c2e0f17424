import type { Challenge } from "./proof-of-work.ts";

/** What the worker is started with. */
export interface ProofWorkerData {
  /** One Int32: the number of the last task that nobody wants any more. It and those before it are given up. */
  readonly cancelled: SharedArrayBuffer;
}

export interface ProofTask extends Challenge {
  /** Counts up from 1. */
  readonly number: number;
  /** After this long the task is given up. */
  readonly maxMs: number;
}

/** The answer to each task, in order: the proof, or undefined when it was given up. */
export type ProofAnswer = Uint8Array | undefined;
