import { GatewayError } from "../core/errors.ts";
import type { BatchListener } from "./store.ts";
import { UnknownOutcomeError } from "./unknown-outcome.ts";

/** What became of one operation of a batch that was committed. */
export type OperationOutcome =
  | { readonly result: unknown }
  | { readonly error: string | UnknownOutcomeError };

export interface GroupCommit<Operation> {
  /**
   * Adds an operation to the next batch. Operations keep the order in which they are pushed.
   * @throws GatewayError `store_unavailable` when the operation or its whole batch was not committed
   * @throws UnknownOutcomeError when that cannot be told
   */
  push(operation: Operation): Promise<unknown>;
  /** Takes nothing more; resolves once everything that was pushed is decided. Safe to call twice. */
  close(): Promise<void>;
}

export interface GroupCommitOptions<Operation> {
  /**
   * Makes one batch durable and gives one outcome per operation, in their order.
   * When it rejects, none of the batch was committed, unless it is with an UnknownOutcomeError.
   */
  readonly commit: (batch: readonly Operation[]) => Promise<readonly OperationOutcome[]>;
  /** Batches under way at the same time; with more than one, batches may commit in any order. */
  readonly maxInFlight: number;
  /** Default 4096. */
  readonly maxBatchOperations?: number;
  /** Payload bytes above which a batch takes no further operation. Default 16 MiB. */
  readonly maxBatchBytes?: number;
  /** Payload bytes of one operation. Default 0. */
  readonly bytesOf?: (operation: Operation) => number;
  readonly onBatch?: BatchListener;
}

interface Waiting<Operation> {
  readonly operation: Operation;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: GatewayError | UnknownOutcomeError) => void;
}

/**
 * Lets many callers share one durable write: while a batch is being committed, the next one gathers. There is
 * no timer to tune: a batch is as large as the commit before it was slow.
 */
export function createGroupCommit<Operation>(options: GroupCommitOptions<Operation>): GroupCommit<Operation> {
  const {
    commit,
    onBatch,
    maxInFlight,
    maxBatchOperations = 4096,
    maxBatchBytes = 16 * 1024 * 1024,
  } = options;
  const bytesOf = options.bytesOf ?? (() => 0);
  let waiting: Waiting<Operation>[] = [];
  let inFlight = 0;
  let flushScheduled = false;
  let closing = false;
  let onIdle: (() => void)[] = [];

  // After the current turn of the event loop: what is pushed in one turn (an accept, and the claim that a
  // listener makes because of it) then shares a batch.
  function scheduleFlush(): void {
    if (flushScheduled || waiting.length === 0 || inFlight >= maxInFlight) return;
    flushScheduled = true;
    setImmediate(() => {
      flushScheduled = false;
      void commitBatch(takeBatch());
      scheduleFlush();
    });
  }

  function takeBatch(): Waiting<Operation>[] {
    let count = 0;
    let bytes = 0;
    for (const { operation } of waiting) {
      bytes += bytesOf(operation);
      if (count > 0 && (count >= maxBatchOperations || bytes > maxBatchBytes)) break;
      count += 1;
    }
    const batch = waiting.slice(0, count);
    waiting = waiting.slice(count);
    return batch;
  }

  async function commitBatch(batch: readonly Waiting<Operation>[]): Promise<void> {
    inFlight += 1;
    const startedAt = performance.now();
    const decided = (committed: boolean) =>
      onBatch?.({ operations: batch.length, durationMs: performance.now() - startedAt, committed });
    try {
      const outcomes = await commit(batch.map(({ operation }) => operation));
      decided(true);
      batch.forEach((entry, index) => {
        const outcome = outcomes[index];
        if (outcome !== undefined && "result" in outcome) entry.resolve(outcome.result);
        else entry.reject(rejection(outcome?.error ?? "the batch came back without an outcome for it"));
      });
    } catch (cause) {
      decided(false);
      for (const { reject } of batch) reject(rejection(cause));
    }
    inFlight -= 1;
    scheduleFlush();
    if (inFlight === 0 && waiting.length === 0) {
      for (const resolve of onIdle) resolve();
      onIdle = [];
    }
  }

  return {
    push(operation) {
      if (closing) return Promise.reject(unavailable("it is closed"));
      return new Promise((resolve, reject) => {
        waiting.push({ operation, resolve, reject });
        scheduleFlush();
      });
    },
    close() {
      closing = true;
      if (inFlight === 0 && waiting.length === 0) return Promise.resolve();
      return new Promise((resolve) => onIdle.push(resolve));
    },
  };
}

function rejection(cause: unknown): GatewayError | UnknownOutcomeError {
  return cause instanceof UnknownOutcomeError ? cause : unavailable(cause);
}

function unavailable(cause: unknown): GatewayError {
  return new GatewayError("store_unavailable", "The store could not write this down; nothing was changed.", {
    cause,
  });
}
