import type { MessagePort } from "node:worker_threads";
import { createCapacity } from "../capacity.ts";
import type { OperationOutcome } from "../group-commit.ts";
import { packBytes } from "../pack-bytes.ts";
import { startCheckpoints } from "./checkpoints.ts";
import type { Database } from "./driver.ts";
import { openDatabase } from "./open-database.ts";
import {
  type OperationOf,
  type OperationTable,
  readOperations,
  writeOperations,
} from "./operations/index.ts";
import { runBatch } from "./transaction.ts";
import type { WorkerAnswer, WorkerRequest, WorkerRole } from "./worker-protocol.ts";

/** One connection to the database, as the worker's role wants it. */
interface Connection {
  run(batch: readonly unknown[]): OperationOutcome[];
  readonly pending: number;
  close(): void;
}

function connect(role: WorkerRole): Connection {
  const database = openDatabase(role.path);
  return role.role === "writer" ? connectWriter(database, role.maxPending) : connectReader(database);
}

function connectWriter(database: Database, maxPending: number): Connection {
  const counted = database
    .prepare<{ n: number }>("SELECT count(*) AS n FROM job_calls WHERE state != 'dead'")
    .get([]);
  const capacity = createCapacity(counted?.n ?? 0, maxPending);
  const operations = writeOperations(database, capacity);
  return {
    run(batch) {
      const { pending } = capacity;
      const onRollback = () => capacity.restore(pending);
      return runBatch(asOperations<typeof operations>(batch), {
        database,
        operations,
        mode: "IMMEDIATE",
        onRollback,
      });
    },
    get pending() {
      return capacity.pending;
    },
    close: () => database.close(),
  };
}

function connectReader(database: Database): Connection {
  const operations = readOperations(database);
  const stopCheckpoints = startCheckpoints(database);
  return {
    run: (batch) =>
      runBatch(asOperations<typeof operations>(batch), {
        database,
        operations,
        mode: "DEFERRED",
        onRollback: () => {},
      }),
    pending: 0,
    close() {
      stopCheckpoints();
      database.close();
    },
  };
}

/** The other end of the message port is typed by the same table. */
function asOperations<Operations extends OperationTable>(
  batch: readonly unknown[],
): readonly OperationOf<Operations>[] {
  return batch as readonly OperationOf<Operations>[];
}

/** Answers the requests that arrive on a port, until one closes it. */
export function serveDatabase(port: MessagePort): void {
  let connection: Connection | undefined;
  port.on("message", (request: WorkerRequest) => {
    if (request.kind === "close") {
      connection?.close();
      port.close();
    } else {
      answer(port, () => {
        if (request.kind === "open") {
          connection = connect(request.role);
          return { kind: "opened", pending: connection.pending };
        }
        if (connection === undefined) throw new Error("the database is not open");
        const outcomes = connection.run(request.operations);
        return { kind: "committed", outcomes, pending: connection.pending };
      });
    }
  });
}

function answer(port: MessagePort, make: () => WorkerAnswer): void {
  let message: WorkerAnswer;
  try {
    message = make();
  } catch (error) {
    message = { kind: "failed", reason: String(error) };
  }
  const buffer = message.kind === "committed" ? packEncoded(message.outcomes) : undefined;
  port.postMessage(message, buffer === undefined ? [] : [buffer]);
}

/** Moves the bytes of all claimed JobCalls into one buffer. */
function packEncoded(outcomes: readonly OperationOutcome[]): ArrayBuffer | undefined {
  const claimed = outcomes.flatMap((outcome) =>
    "result" in outcome && Array.isArray(outcome.result) ? outcome.result.filter(hasEncoded) : [],
  );
  if (claimed.length === 0) return undefined;
  const { buffer, views } = packBytes(claimed.map(({ encoded }) => encoded));
  for (const [index, call] of claimed.entries()) {
    const view = views[index];
    if (view !== undefined) call.encoded = view;
  }
  return buffer;
}

function hasEncoded(value: unknown): value is { encoded: Uint8Array } {
  return typeof value === "object" && value !== null && "encoded" in value;
}
