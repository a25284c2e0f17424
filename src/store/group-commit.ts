import { GatewayError, UnknownOutcomeError } from "../core/errors.ts";
import type { BatchListener } from "./store.ts";

/** Outcome of one operation of a committed batch. */
export type OperationOutcome =
  | { readonly result: unknown }
  | { readonly error: string | UnknownOutcomeError };

export interface GroupCommitOptions<Operation> {
  /**
   * Makes one batch durable and returns one outcome per operation, in their order. When the commit rejects, no
   * operation of the batch was committed, unless the error is an UnknownOutcomeError.
   */
  readonly commit: (batch: readonly Operation[]) => Promise<readonly OperationOutcome[]>;
  /** Number of batches in progress at the same time. If it is above 1, batches can commit in any order. */
  readonly maxInFlight: number;
  readonly maxBatchOperations?: number;
  /** Payload bytes above which a batch accepts no further operation. Default: 16 MiB. */
  readonly maxBatchBytes?: number;
  /** Returns the payload bytes of one operation. Default: 0. */
  readonly bytesOf?: (operation: Operation) => number;
  /** Returns true for operations that see the effects of all other operations in their batch. They are decided last. */
  readonly runsLast?: (operation: Operation) => boolean;
  readonly onBatch?: BatchListener | undefined;
  /**
   * Time after which the callers of a batch in progress get the error that its outcome is unknown. The batch continues.
   * Default: no limit.
   */
  readonly callerMs?: number;
  /** Returns true for operations whose callers wait for the outcome without a time limit. */
  readonly isPatient?: (operation: Operation) => boolean;
  /** Returns the reason why an operation must not begin now; undefined if it may begin. Default: every operation may begin. */
  readonly refusal?: (operation: Operation) => string | undefined;
}

interface Waiting<Operation> {
  readonly operation: Operation;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: GatewayError | UnknownOutcomeError) => void;
}

/**
 * Lets many callers share one durable write: while a batch is being committed, the next batch collects operations. No
 * timer is needed, because a batch grows with the duration of the commit before it.
 */
export class GroupCommit<Operation> {
  readonly #options: GroupCommitOptions<Operation>;
  #waiting: Waiting<Operation>[] = [];
  #inFlight = 0;
  #flushScheduled = false;
  #closing = false;
  #onIdle: (() => void)[] = [];

  constructor(options: GroupCommitOptions<Operation>) {
    this.#options = options;
  }

  /**
   * Adds an operation to the next batch. Operations keep the order in which they are pushed.
   * @throws GatewayError `store_unavailable` when the operation or its whole batch was not committed
   * @throws UnknownOutcomeError when it is unknown whether the operation was committed
   */
  push(operation: Operation): Promise<unknown> {
    if (this.#closing) return Promise.reject(unavailable("it is closed"));
    const refusal = this.#options.refusal?.(operation);
    if (refusal !== undefined) return Promise.reject(unavailable(refusal));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ operation, resolve, reject });
      this.#scheduleFlush();
    });
  }

  /** Refuses the operations that wait for a batch and for which `refusal` returns a reason. */
  refuseWaiting(): void {
    this.#waiting = this.#waiting.filter(({ operation, reject }) => {
      const refusal = this.#options.refusal?.(operation);
      if (refusal !== undefined) reject(unavailable(refusal));
      return refusal === undefined;
    });
  }

  /** Accepts nothing more; resolves once everything that was pushed is decided. Safe to call twice. */
  close(): Promise<void> {
    this.#closing = true;
    if (this.#isIdle()) return Promise.resolve();
    return new Promise((resolve) => this.#onIdle.push(resolve));
  }

  // Flushes after the current turn of the event loop, so that operations pushed in one turn (an accept, and the claim
  // that a listener makes because of it) share a batch.
  #scheduleFlush(): void {
    if (this.#flushScheduled || this.#waiting.length === 0) return;
    if (this.#inFlight >= this.#options.maxInFlight) return;
    this.#flushScheduled = true;
    setImmediate(() => {
      this.#flushScheduled = false;
      if (this.#waiting.length > 0) void this.#commit(this.#takeBatch());
      this.#scheduleFlush();
    });
  }

  #takeBatch(): Waiting<Operation>[] {
    const { bytesOf, maxBatchOperations = 4096, maxBatchBytes = 16 * 1024 * 1024 } = this.#options;
    let count = 0;
    let bytes = 0;
    for (const { operation } of this.#waiting) {
      bytes += bytesOf?.(operation) ?? 0;
      if (count > 0 && (count >= maxBatchOperations || bytes > maxBatchBytes)) break;
      count += 1;
    }
    const batch = this.#waiting.slice(0, count);
    this.#waiting = this.#waiting.slice(count);
    return batch;
  }

  async #commit(batch: readonly Waiting<Operation>[]): Promise<void> {
    const { commit, onBatch, runsLast } = this.#options;
    const timer = this.#answerInTime(batch);
    this.#inFlight += 1;
    const startedAt = performance.now();
    const decided = (committed: boolean) =>
      onBatch?.({ operations: batch.length, durationMs: performance.now() - startedAt, committed });
    try {
      const outcomes = await commit(batch.map(({ operation }) => operation));
      decided(true);
      const decideThose = (areLast: boolean) =>
        batch.forEach((entry, index) => {
          if ((runsLast?.(entry.operation) ?? false) === areLast) decide(entry, outcomes[index]);
        });
      decideThose(false);
      decideThose(true);
    } catch (cause) {
      decided(false);
      for (const { reject } of batch) reject(rejection(cause));
    }
    clearTimeout(timer);
    this.#inFlight -= 1;
    this.#scheduleFlush();
    if (this.#isIdle()) for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  /** Outcomes that arrive later change nothing for callers that already have their answer. */
  #answerInTime(batch: readonly Waiting<Operation>[]): NodeJS.Timeout | undefined {
    const { callerMs, isPatient } = this.#options;
    if (callerMs === undefined) return undefined;
    return setTimeout(() => {
      for (const { operation, reject } of batch) {
        if (isPatient?.(operation)) continue;
        reject(new UnknownOutcomeError(`the store has not answered a commit for ${callerMs} ms`));
      }
    }, callerMs);
  }

  #isIdle(): boolean {
    return this.#inFlight === 0 && this.#waiting.length === 0;
  }
}

function decide(
  { resolve, reject }: Pick<Waiting<unknown>, "resolve" | "reject">,
  outcome: OperationOutcome | undefined,
): void {
  if (outcome !== undefined && "result" in outcome) resolve(outcome.result);
  else reject(rejection(outcome?.error ?? "the batch came back without an outcome for it"));
}

function rejection(cause: unknown): GatewayError | UnknownOutcomeError {
  return cause instanceof UnknownOutcomeError ? cause : unavailable(cause);
}

function unavailable(cause: unknown): GatewayError {
  return new GatewayError("store_unavailable", "The store could not write; nothing was changed.", {
    cause,
    headers: { "retry-after": "5" },
  });
}
