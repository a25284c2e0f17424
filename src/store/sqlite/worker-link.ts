import { MessageChannel, type MessagePort, type TransferListItem } from "node:worker_threads";
import { startWorkerThread } from "../../node/worker-thread.ts";
import type { OperationOutcome } from "../group-commit.ts";
import { serveDatabase } from "./serve-database.ts";
import type { WorkerAnswer, WorkerRequest, WorkerRole } from "./worker-protocol.ts";

export interface Committed {
  readonly outcomes: readonly OperationOutcome[];
  /** JobCalls not finished after the batch. */
  readonly pending: number;
}

/** The main thread's end of a database worker. One request at a time. */
export interface WorkerLink {
  /**
   * Opens the database, which must come first.
   * @returns JobCalls not finished
   * @throws Error when it cannot be opened
   */
  open(role: WorkerRole): Promise<number>;
  /** Runs one batch. Rejects when nothing of it was committed, or when the worker is gone. */
  run(operations: readonly unknown[], transfer: readonly TransferListItem[]): Promise<Committed>;
  close(): Promise<void>;
}

interface Waiting {
  readonly resolve: (answer: WorkerAnswer) => void;
  readonly reject: (error: Error) => void;
}

/** @param onDeath called once if the worker ends without being told to */
export function startWorker({
  threads,
  onDeath,
}: {
  threads: boolean;
  onDeath: (reason: string) => void;
}): WorkerLink {
  const worker = threads ? startWorkerThread("worker", import.meta.url, {}) : serveInThisThread();
  const exited = new Promise<void>((resolve) => worker.once(threads ? "exit" : "close", () => resolve()));
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

  worker.on("message", answered);
  worker.on("error", (error) => died(`the database worker failed: ${String(error)}`));
  worker.on("exit", (code) => died(`the database worker ended with code ${code}`));

  async function request<Kind extends WorkerAnswer["kind"]>(
    message: WorkerRequest,
    expected: Kind,
    transfer: readonly TransferListItem[] = [],
  ): Promise<Extract<WorkerAnswer, { kind: Kind }>> {
    if (diedOf !== undefined) throw new Error(diedOf);
    const answer = await new Promise<WorkerAnswer>((resolve, reject) => {
      waiting = { resolve, reject };
      worker.postMessage(message, [...transfer]);
    });
    if (answer.kind !== expected) throw new Error(`the database worker answered ${answer.kind}`);
    return answer as Extract<WorkerAnswer, { kind: Kind }>;
  }

  return {
    open: async (role) => (await request({ kind: "open", role }, "opened")).pending,
    run: (operations, transfer) => request({ kind: "batch", operations }, "committed", transfer),
    async close() {
      if (diedOf !== undefined) return;
      closing = true;
      worker.postMessage({ kind: "close" } satisfies WorkerRequest);
      await exited;
    },
  };
}

/** The same code and messages as with a thread, over a port whose other end is in this thread. */
function serveInThisThread(): MessagePort {
  const { port1, port2 } = new MessageChannel();
  serveDatabase(port2);
  return port1;
}
