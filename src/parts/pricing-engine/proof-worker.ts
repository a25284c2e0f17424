import { parentPort } from "node:worker_threads";
import { type Challenge, solveChallenge } from "./proof-of-work.ts";

/** One search for a proof. The answer is the proof, or undefined when the search was given up. */
export interface ProofTask extends Challenge {
  /** Time after which the search is given up. */
  readonly maxMs: number;
  /**
   * Number in shared memory, because a searching thread receives no messages. A number other than 0 ends the search.
   */
  readonly cancelled: Int32Array;
}

parentPort?.on("message", ({ maxMs, cancelled, ...challenge }: ProofTask) => {
  const endsAt = performance.now() + maxMs;
  const shouldStop = () => Atomics.load(cancelled, 0) !== 0 || performance.now() > endsAt;
  parentPort?.postMessage(solveChallenge(challenge, shouldStop));
});
