import { parentPort } from "node:worker_threads";
import { type Challenge, solveChallenge } from "./proof-of-work.ts";

/** One search for a proof. The answer is the proof, or undefined when the search was given up. */
export interface ProofTask extends Challenge {
  /** Time after which the search is given up. */
  readonly maxMs: number;
  /** One number in shared memory, because a searching thread hears no messages: not 0 gives the search up. */
  readonly cancelled: Int32Array;
}

parentPort?.on("message", ({ maxMs, cancelled, ...challenge }: ProofTask) => {
  const endsAt = performance.now() + maxMs;
  const shouldStop = () => Atomics.load(cancelled, 0) !== 0 || performance.now() > endsAt;
  parentPort?.postMessage(solveChallenge(challenge, shouldStop));
});
