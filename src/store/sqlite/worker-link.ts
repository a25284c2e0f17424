import type { TransferListItem } from "node:worker_threads";
import { startWorkerThread } from "../../worker-thread.ts";
import type { OperationOutcome } from "../group-commit.ts";
import type { WorkerAnswer, WorkerRequest, WorkerRole } from "./worker-protocol.ts";

export interface Committed {
  readonly outcomes: readonly OperationOutcome[];
  /** JobCalls not finished after the batch. */
  readonly pending: number;
}

/** The main thread's end of a database worker. */
export interface WorkerLink {
  /** JobCalls not finished when the database was opened. */
  readonly initialPending: number;
  /** Why the worker is gone, if it is. */
  readonly diedOf: string | undefined;
  /** Runs one batch; only one at a time. Rejects when nothing of it was committed, or when the worker is gone. */
  run(operations: readonly unknown[], transfer: readonly TransferListItem[]): Promise<Committed>;
  close(): Promise<void>;
}

/**
 * Starts a worker on the database.
 * @throws Error when it cannot open the database
 */
export async function startWorker(role: WorkerRole, onDeath: (reason: string) => void): Promise<WorkerLink> {
  const worker = startWorkerThread("worker", import.meta.url, { workerData: role });
  const exited = new Promise<void>((resolve) => worker.once("exit", () => resolve()));
  let diedOf: string | undefined;
  let closing = false;
  let waiting: Waiting | undefined;

  function answered(answer: WorkerAnswer): void {
    const { resolve, reject } = waiting ?? {};
    waiting = undefined;
    if (answer.kind === "failed") reject?.(new Error(answer.reason));
    else resolve?.(answer);
  }

  function died(reason: string): void {
    if (diedOf !== undefined || closing) return;
    diedOf = reason;
    answered({ kind: "failed", reason });
    onDeath(reason);
  }

  function nextAnswer(): Promise<WorkerAnswer> {
    return new Promise((resolve, reject) => {
      waiting = { resolve, reject };
    });
  }

  worker.on("message", answered);
  worker.on("error", (error) => died(`the database worker failed: ${String(error)}`));
  worker.on("exit", (code) => died(`the database worker ended with code ${code}`));

  const ready = await nextAnswer().catch((error: unknown) => {
    closing = true;
    throw error;
  });
  return {
    initialPending: ready.kind === "ready" ? ready.pending : 0,
    get diedOf() {
      return diedOf;
    },
    async run(operations, transfer) {
      if (diedOf !== undefined) throw new Error(diedOf);
      const answer = nextAnswer();
      worker.postMessage({ kind: "batch", operations } satisfies WorkerRequest, [...transfer]);
      const committed = await answer;
      if (committed.kind !== "committed") throw new Error(`unexpected answer: ${committed.kind}`);
      return committed;
    },
    async close() {
      if (diedOf !== undefined) return;
      closing = true;
      worker.postMessage({ kind: "close" } satisfies WorkerRequest);
      await exited;
    },
  };
}

interface Waiting {
  readonly resolve: (answer: WorkerAnswer) => void;
  readonly reject: (error: Error) => void;
}
