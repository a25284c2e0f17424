import type { Worker } from "node:worker_threads";
import { startWorkerThread } from "../../node/worker-thread.ts";
import type { SchemaAnswer, SchemaTask } from "./schema-worker.ts";

/** Thread that checks bodies, one at a time. It starts with the first body. */
export class SchemaThread {
  #worker: Worker | undefined;
  #check:
    | { readonly resolve: (answer: SchemaAnswer) => void; readonly reject: (error: Error) => void }
    | undefined;

  /**
   * Checks a body. Call it only when the last check has ended.
   * @throws Error when the thread died. The next call starts another thread
   */
  check(task: SchemaTask): Promise<SchemaAnswer> {
    this.#worker ??= this.#start();
    const worker = this.#worker;
    return new Promise((resolve, reject) => {
      this.#check = { resolve, reject };
      worker.postMessage(task);
    });
  }

  async stop(): Promise<void> {
    await this.#worker?.terminate();
  }

  #start(): Worker {
    const worker = startWorkerThread("schema-worker", import.meta.url, {});
    // The connection of the request keeps the process alive.
    worker.unref();
    const died = (reason: string) => {
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      this.#check?.reject(new Error(`the thread that checks bodies ${reason}`));
    };
    worker.on("message", (answer: SchemaAnswer) => this.#check?.resolve(answer));
    worker.on("error", (error) => died(`failed: ${String(error)}`));
    worker.on("exit", (code) => died(`ended with code ${code}`));
    return worker;
  }
}
