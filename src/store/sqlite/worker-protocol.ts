import type { OperationOutcome } from "../group-commit.ts";

/** What a database worker is told to be. */
export type WorkerRole =
  | { readonly role: "writer"; readonly path: string; readonly maxPending: number }
  | { readonly role: "reader"; readonly path: string };

/** To the worker: `open` first. One request at a time: the next only after the answer to the last. */
export type WorkerRequest =
  | { readonly kind: "open"; readonly role: WorkerRole }
  | { readonly kind: "batch"; readonly operations: readonly unknown[] }
  /** Not answered: the worker ends. */
  | { readonly kind: "close" };

/** From the worker: `opened` to `open`, `committed` to `batch`, or `failed`. */
export type WorkerAnswer =
  | { readonly kind: "opened"; readonly pending: number }
  | { readonly kind: "committed"; readonly outcomes: OperationOutcome[]; readonly pending: number }
  | { readonly kind: "failed"; readonly reason: string };
