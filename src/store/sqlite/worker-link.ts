import { MessageChannel, type MessagePort, type Worker } from "node:worker_threads";
import { UnknownOutcomeError } from "../../core/errors.ts";
import { startWorkerThread } from "../../node/worker-thread.ts";
import type { OperationOutcome } from "../group-commit.ts";
import { decodeOutcomes, encodeBatch } from "./batch-codec.ts";
import type { ConnectionRole } from "./connection.ts";
import { buffersOf } from "./flat-message.ts";
import { type Counts, serveDatabase, type WorkerAnswer, type WorkerRequest } from "./serve-database.ts";
import type { TimedOperation } from "./transaction.ts";
import type { TruncatedLog } from "./watched-files.ts";

/** Called once if the worker ends by itself, or has lost the database's files. */
export type DeathListener = (reason: string, log?: TruncatedLog) => void;

/** The main thread's end of a database worker. One request at a time. */
export class WorkerLink {
  readonly #worker: Worker | MessagePort;
  readonly #exited: Promise<void>;
  readonly #onDeath: DeathListener;
  #diedOf: string | undefined;
  #closing = false;
  #writes = false;
  #waiting: { resolve: (answer: WorkerAnswer) => void; reject: (error: Error) => void } | undefined;

  constructor(options: {
    /** If false, the worker's code runs in this thread. */
    readonly threads: boolean;
    readonly onDeath: DeathListener;
  }) {
    const { threads, onDeath } = options;
    this.#onDeath = onDeath;
    this.#worker = threads ? startWorkerThread("worker", import.meta.url, {}) : serveInThisThread();
    this.#exited = new Promise((resolve) => this.#worker.once(threads ? "exit" : "close", () => resolve()));
    this.#worker.on("message", (answer: WorkerAnswer) => {
      if (answer.kind === "lost") onDeath(answer.reason, answer.log);
      else this.#answered(answer);
    });
    this.#worker.on("error", (error) => this.#died(`the database worker failed: ${String(error)}`));
    this.#worker.on("exit", (code) => this.#died(`the database worker ended with code ${code}`));
  }

  /**
   * Opens the database. It must be the first call.
   * @throws Error when it cannot be opened
   */
  async open(role: ConnectionRole): Promise<Counts> {
    const counts = await this.#request({ kind: "open", role }, "opened");
    this.#writes = role.role === "writer";
    return counts;
  }

  /**
   * Runs one batch. Rejects when nothing of it was committed.
   * @returns the outcome of each operation, and the connection's counts
   * @throws UnknownOutcomeError when the worker ends before it has answered, or loses the database's files
   */
  async run(operations: readonly TimedOperation[]): Promise<Counts & { outcomes: OperationOutcome[] }> {
    const batch = encodeBatch(operations);
    const { outcomes, ...counts } = await this.#request(
      { kind: "batch", batch },
      "committed",
      buffersOf(batch),
    );
    return { outcomes: decodeOutcomes(operations, outcomes), ...counts };
  }

  async close(): Promise<void> {
    if (this.#diedOf !== undefined) return;
    this.#closing = true;
    this.#worker.postMessage({ kind: "close" } satisfies WorkerRequest);
    await this.#exited;
  }

  async #request<Kind extends WorkerAnswer["kind"]>(
    message: WorkerRequest,
    expected: Kind,
    transfer: ArrayBuffer[] = [],
  ): Promise<Extract<WorkerAnswer, { kind: Kind }>> {
    if (this.#diedOf !== undefined) throw new Error(this.#diedOf);
    const answer = await new Promise<WorkerAnswer>((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#worker.postMessage(message, transfer);
    });
    if (answer.kind !== expected) throw new Error(`the database worker answered ${answer.kind}`);
    return answer as Extract<WorkerAnswer, { kind: Kind }>;
  }

  #answered(answer: WorkerAnswer): void {
    const { resolve, reject } = this.#waiting ?? {};
    this.#waiting = undefined;
    if (answer.kind !== "failed") resolve?.(answer);
    else reject?.(answer.isUnknown ? new UnknownOutcomeError(answer.reason) : new Error(answer.reason));
  }

  #died(reason: string): void {
    if (this.#diedOf !== undefined || this.#closing) return;
    this.#diedOf = reason;
    this.#answered({ kind: "failed", reason, isUnknown: this.#writes });
    this.#onDeath(reason);
  }
}

/** Runs the worker's code with the same messages in this thread, on a port whose other end is also in this thread. */
function serveInThisThread(): MessagePort {
  const { port1, port2 } = new MessageChannel();
  serveDatabase(port2);
  return port1;
}
