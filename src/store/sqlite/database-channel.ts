import type { Clock } from "../../core/clock.ts";
import { createGroupCommit, type OperationOutcome } from "../group-commit.ts";
import { packBytes } from "../pack-bytes.ts";
import { payloadBytes } from "../payload-bytes.ts";
import type { BatchListener } from "../store.ts";
import type { AnyOperation, InputOf, OperationTable } from "./operations/index.ts";
import { startWorker, type WorkerLink } from "./worker-link.ts";
import type { WorkerRole } from "./worker-protocol.ts";

/** Typed calls of the operations that one database worker runs, many to a transaction. */
export interface DatabaseChannel<Operations extends OperationTable> {
  /** Resolves once the operation is committed. It happens at the time at which it is called. */
  call<Name extends keyof Operations>(
    name: Name,
    input: InputOf<Operations[Name]>,
  ): Promise<ReturnType<Operations[Name]>>;
  /** JobCalls not finished, as of the last batch. */
  readonly pending: number;
  close(): Promise<void>;
}

export interface DatabaseChannelOptions {
  readonly role: WorkerRole;
  /** False runs the worker's code in this thread. */
  readonly threads: boolean;
  /** The database is opened once this is fulfilled, and not at all when it rejects. */
  readonly after?: Promise<unknown>;
  readonly clock: Clock;
  readonly onBatch?: BatchListener;
  /** A batch could not be committed. */
  readonly onFailure: (reason: string) => void;
  /** The worker is gone, and no batch can be any more. */
  readonly onDeath: (reason: string) => void;
}

/** @throws Error when the database cannot be opened */
export async function openDatabaseChannel<Operations extends OperationTable>(
  options: DatabaseChannelOptions,
): Promise<DatabaseChannel<Operations>> {
  const { role, threads, clock, onBatch, onFailure, onDeath } = options;
  const worker = startWorker({ threads, onDeath });
  let pending: number;
  try {
    await options.after;
    pending = await worker.open(role);
  } catch (error) {
    await worker.close();
    throw error;
  }

  async function commit(batch: readonly AnyOperation[]): Promise<readonly OperationOutcome[]> {
    try {
      const committed = await send(worker, batch);
      pending = committed.pending;
      return committed.outcomes;
    } catch (error) {
      onFailure(error instanceof Error ? error.message : String(error));
      throw error;
    }
  }

  const pump = createGroupCommit<AnyOperation>({
    commit,
    maxInFlight: 1,
    bytesOf: ({ input }) => payloadBytes(input),
    ...(onBatch === undefined ? {} : { onBatch }),
  });
  return {
    async call<Name extends keyof Operations>(name: Name, input: InputOf<Operations[Name]>) {
      return (await pump.push({ name, input, now: clock() })) as ReturnType<Operations[Name]>;
    },
    get pending() {
      return pending;
    },
    async close() {
      await pump.close();
      await worker.close();
    },
  };
}

/** Transfers the bodies of all new JobCalls in one buffer. */
function send(worker: WorkerLink, batch: readonly AnyOperation[]) {
  const bodies = batch.flatMap(({ input }) => encodedOf(input) ?? []);
  const { buffer, views } = packBytes(bodies);
  let next = 0;
  const operations = batch.map((operation) =>
    encodedOf(operation.input) === undefined
      ? operation
      : {
          ...operation,
          input: { ...operation.input, call: { ...operation.input.call, encoded: views[next++] } },
        },
  );
  return worker.run(operations, [buffer]);
}

function encodedOf(input: { call?: { encoded: Uint8Array } } | undefined): Uint8Array | undefined {
  return input?.call?.encoded;
}
