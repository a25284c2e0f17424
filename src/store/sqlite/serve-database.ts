import type { MessagePort } from "node:worker_threads";
import { UnknownOutcomeError } from "../../core/errors.ts";
import { decodeBatch, encodeOutcomes } from "./batch-codec.ts";
import { type Connection, type ConnectionRole, openConnection } from "./connection.ts";
import { buffersOf, type FlatMessage } from "./flat-message.ts";
import type { TruncatedLog } from "./watched-files.ts";

/**
 * Request to the worker. The first request is `open`, and each further request is sent after the answer to the one before
 * it.
 */
export type WorkerRequest =
  | { readonly kind: "open"; readonly role: ConnectionRole }
  | { readonly kind: "batch"; readonly batch: FlatMessage }
  /** The request has no answer, because the worker ends. */
  | { readonly kind: "close" };

/** Answer from the worker: `opened` to `open`, `committed` to `batch`, or `failed`. `lost` is sent without a request. */
export type WorkerAnswer =
  | ({ readonly kind: "opened" } & Counts)
  | ({ readonly kind: "committed"; readonly outcomes: FlatMessage } & Counts)
  | {
      readonly kind: "failed";
      readonly reason: string;
      /** True if the batch may have been committed. */
      readonly isUnknown: boolean;
    }
  /** The database's files were deleted, replaced or truncated, so every later batch fails. */
  | { readonly kind: "lost"; readonly reason: string; readonly log: TruncatedLog | undefined };

/** Counters of a connection, as of the last batch. */
export type Counts = Pick<Connection, "pending" | "lastCallId" | "leavesWork">;

export const countsOf = ({ pending, lastCallId, leavesWork }: Connection): Counts => ({
  ...{ pending, lastCallId, leavesWork },
});

/** Answers the requests that arrive on a port with one database connection, until a request closes it. */
export function serveDatabase(port: MessagePort): void {
  let connection: Connection | undefined;
  port.on("message", (request: WorkerRequest) => {
    if (request.kind === "close") {
      connection?.close();
      port.close();
    } else {
      answer(port, () => {
        if (request.kind === "open") {
          connection = openConnection(request.role, (reason, log) => {
            port.postMessage({ kind: "lost", reason, log } satisfies WorkerAnswer);
          });
          return { kind: "opened", ...countsOf(connection) };
        }
        if (connection === undefined) throw new Error("the database is not open");
        const batch = decodeBatch(request.batch);
        const outcomes = encodeOutcomes(batch, connection.run(batch));
        return { kind: "committed", outcomes, ...countsOf(connection) };
      });
    }
  });
}

function answer(port: MessagePort, make: () => WorkerAnswer): void {
  let message: WorkerAnswer;
  try {
    message = make();
  } catch (error) {
    // The name of a plain Error adds nothing, but the name of SQLite's error does.
    const reason = String(error).replace(/^Error: /, "");
    message = { kind: "failed", reason, isUnknown: error instanceof UnknownOutcomeError };
  }
  port.postMessage(message, message.kind === "committed" ? buffersOf(message.outcomes) : []);
}
