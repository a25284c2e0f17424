import type { OperationOutcome } from "../group-commit.ts";

/** What a database worker is started with. */
export type WorkerRole =
  | { readonly role: "writer"; readonly path: string; readonly maxPending: number }
  | { readonly role: "reader"; readonly path: string };

/** To the worker. One batch at a time: the next only after the answer to the last. */
export type WorkerRequest =
  | { readonly kind: "batch"; readonly operations: readonly unknown[] }
  | { readonly kind: "close" };

/** From the worker: `ready` or `failed` once after its start, then one answer to each batch. */
export type WorkerAnswer =
  | { readonly kind: "ready"; readonly pending: number }
  | { readonly kind: "committed"; readonly outcomes: OperationOutcome[]; readonly pending: number }
  | { readonly kind: "failed"; readonly reason: string };
