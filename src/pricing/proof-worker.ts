import { parentPort, workerData } from "node:worker_threads";
import { solveChallenge } from "./proof-of-work.ts";
import type { ProofAnswer, ProofTask, ProofWorkerData } from "./proof-worker-protocol.ts";

/*
 * The thread on which proofs of work are made. It cannot hear messages while it works, so what is cancelled is
 * told to it through shared memory.
 */

const cancelled = new Int32Array((workerData as ProofWorkerData).cancelled);

parentPort?.on("message", (task: ProofTask) => {
  const endsAt = performance.now() + task.maxMs;
  const shouldStop = () => Atomics.load(cancelled, 0) >= task.number || performance.now() > endsAt;
  parentPort?.postMessage(solveChallenge(task, shouldStop) satisfies ProofAnswer);
});
