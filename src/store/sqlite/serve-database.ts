import type { MessagePort } from "node:worker_threads";
import { type OperationOutcome, UnknownOutcomeError } from "../group-commit.ts";
import { packBytes } from "../new-call.ts";
import { type Connection, type ConnectionRole, openConnection } from "./connection.ts";
import type { TimedOperation } from "./transaction.ts";

/** Request to the worker. `open` comes first, and each request only after the answer to the last. */
export type WorkerRequest =
  | { readonly kind: "open"; readonly role: ConnectionRole }
  | { readonly kind: "batch"; readonly operations: readonly TimedOperation[] }
  /** Not answered: the worker ends. */
  | { readonly kind: "close" };

/** Answer from the worker: `opened` to `open`, `committed` to `batch`, or `failed`. `lost` comes unasked. */
export type WorkerAnswer =
  | { readonly kind: "opened"; readonly pending: number }
  | { readonly kind: "committed"; readonly outcomes: OperationOutcome[]; readonly pending: number }
  | {
      readonly kind: "failed";
      readonly reason: string;
      /** The batch may have been committed. */
      readonly isUnknown: boolean;
    }
  /** The database's files were deleted, replaced or truncated: every later batch fails. */
  | { readonly kind: "lost"; readonly reason: string };

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
          connection = openConnection(request.role, (reason) => {
            port.postMessage({ kind: "lost", reason } satisfies WorkerAnswer);
          });
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
    message = { kind: "failed", reason: String(error), isUnknown: error instanceof UnknownOutcomeError };
  }
  const buffer = message.kind === "committed" ? packEncoded(message.outcomes) : undefined;
  port.postMessage(message, buffer === undefined ? [] : [buffer]);
}

/** Moves the bytes of all claimed JobCalls into one buffer, which is transferred instead of copied. */
function packEncoded(outcomes: readonly OperationOutcome[]): ArrayBuffer | undefined {
  const claimed = outcomes.flatMap((outcome) => ("result" in outcome ? claimedCalls(outcome.result) : []));
  if (claimed.length === 0) return undefined;
  const { buffer, views } = packBytes(claimed.map(({ encoded }) => encoded));
  for (const [index, call] of claimed.entries()) {
    const view = views[index];
    if (view !== undefined) call.encoded = view;
  }
  return buffer;
}

/** Only a claim's outcome has a list of `calls`. */
function claimedCalls(result: unknown): { encoded: Uint8Array }[] {
  const { calls } = (result ?? {}) as { readonly calls?: unknown };
  return Array.isArray(calls) ? calls : [];
}
