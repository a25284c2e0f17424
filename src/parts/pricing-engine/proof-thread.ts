import type { Worker } from "node:worker_threads";
import { startWorkerThread } from "../../node/worker-thread.ts";
import type { Challenge } from "./proof-of-work.ts";
import type { ProofTask } from "./proof-worker.ts";

/** Thread that searches for proofs, one at a time. It starts with the first search. */
export class ProofThread {
  #worker: Worker | undefined;
  #search:
    | {
        readonly resolve: (proof: Uint8Array | undefined) => void;
        readonly reject: (error: Error) => void;
        readonly cancelled: Int32Array;
      }
    | undefined;

  /**
   * Searches for at most `maxMs`. Call it only when the last search has ended.
   * @returns undefined when the time was over or the search was cancelled
   * @throws Error when the thread died; the next call starts another
   */
  solve(challenge: Challenge, maxMs: number): Promise<Uint8Array | undefined> {
    this.#worker ??= this.#start();
    const worker = this.#worker;
    const cancelled = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    return new Promise((resolve, reject) => {
      this.#search = { resolve, reject, cancelled };
      worker.postMessage({ ...challenge, maxMs, cancelled } satisfies ProofTask);
    });
  }

  /** Ends the current search within about a millisecond. */
  cancel(): void {
    if (this.#search !== undefined) Atomics.store(this.#search.cancelled, 0, 1);
  }

  async stop(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    this.#search?.resolve(undefined);
    await worker?.terminate();
  }

  #start(): Worker {
    const worker = startWorkerThread("proof-worker", import.meta.url, {});
    const died = (reason: string) => {
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      this.#search?.reject(new Error(`the proof-of-work thread ${reason}`));
    };
    worker.on("message", (proof: Uint8Array | undefined) => this.#search?.resolve(proof));
    worker.on("error", (error) => died(`failed: ${String(error)}`));
    worker.on("exit", (code) => died(`ended with code ${code}`));
    return worker;
  }
}
