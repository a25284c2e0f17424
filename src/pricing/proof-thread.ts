import type { Worker } from "node:worker_threads";
import { startWorkerThread } from "../node/worker-thread.ts";
import type { Challenge } from "./proof-of-work.ts";
import type { ProofAnswer, ProofTask, ProofWorkerData } from "./proof-worker-protocol.ts";

/** The thread that makes proofs: one at a time, started when the first is asked for. */
export interface ProofThread {
  /**
   * Works on a challenge for at most `maxMs`. Not to be called while another is worked on.
   * @returns undefined when the time was over or the work was cancelled
   * @throws Error when the thread died; the next call starts another
   */
  solve(challenge: Challenge, maxMs: number): Promise<Uint8Array | undefined>;
  /** Ends the work in hand within a millisecond or so. */
  cancel(): void;
  stop(): Promise<void>;
}

interface Waiting {
  readonly resolve: (answer: ProofAnswer) => void;
  readonly reject: (error: Error) => void;
}

export function createProofThread(): ProofThread {
  const cancelled = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  const lastCancelled = new Int32Array(cancelled);
  let worker: Worker | undefined;
  let waiting: Waiting | undefined;
  let number = 0;

  function start(): Worker {
    const workerData: ProofWorkerData = { cancelled };
    const started = startWorkerThread("proof-worker", import.meta.url, { workerData });
    const died = (reason: string) => {
      if (worker !== started) return;
      worker = undefined;
      settle()?.reject(new Error(`the thread that makes proofs of work ${reason}`));
    };
    started.on("message", (answer: ProofAnswer) => settle()?.resolve(answer));
    started.on("error", (error) => died(`failed: ${String(error)}`));
    started.on("exit", (code) => died(`ended with code ${code}`));
    return started;
  }

  function settle(): Waiting | undefined {
    const settled = waiting;
    waiting = undefined;
    return settled;
  }

  function cancel(): void {
    Atomics.store(lastCancelled, 0, number);
  }

  return {
    solve(challenge, maxMs) {
      worker ??= start();
      const running = worker;
      number += 1;
      const task: ProofTask = { ...challenge, number, maxMs };
      return new Promise((resolve, reject) => {
        waiting = { resolve, reject };
        running.postMessage(task);
      });
    },
    cancel,
    async stop() {
      cancel();
      const stopped = worker;
      worker = undefined;
      settle()?.resolve(undefined);
      await stopped?.terminate();
    },
  };
}
