import type { Logger } from "pino";
import type { Lease, ReleaseOptions, RetryBackoff, WorkQueue } from "../store/contract/work-queue.ts";
import type { OutLease } from "./lease-table.ts";

/** Requests to the store that no runner waits for. The store must not close before they are answered. */
export class BackgroundRequests {
  readonly #workQueue: WorkQueue;
  readonly #retry: { readonly maxAttempts: number; readonly backoff: RetryBackoff };
  readonly #logger: Logger;
  readonly #onReady: (options?: { readonly suspects: boolean }) => void;
  readonly #onDelayed: () => void;
  readonly #underWay = new Set<Promise<void>>();

  constructor(options: {
    readonly workQueue: WorkQueue;
    /** Terms on which a JobCall is delivered again. */
    readonly retry: { readonly maxAttempts: number; readonly backoff: RetryBackoff };
    readonly logger: Logger;
    /** Called when a JobCall may be claimed again. */
    readonly onReady: (options?: { readonly suspects: boolean }) => void;
    /** Called when a JobCall waits for a time that only the store knows. */
    readonly onDelayed: () => void;
  }) {
    this.#workQueue = options.workQueue;
    this.#retry = options.retry;
    this.#logger = options.logger;
    this.#onReady = options.onReady;
    this.#onDelayed = options.onDelayed;
  }

  /**
   * Releases a JobCall.
   * @param options `excused` if its runner has not begun the JobCall; see {@link ReleaseOptions} for the other options
   */
  release(
    { callId, leaseToken, suspect }: Lease & { readonly suspect: boolean },
    { excused, reason, wasAlone }: Pick<ReleaseOptions, "excused" | "reason" | "wasAlone">,
  ): void {
    const options = { excused, suspect, reason, wasAlone, ...this.#retry };
    const released = this.#workQueue.release({ callId, leaseToken }, options);
    this.#send(
      released.then(() => (excused ? this.#onReady({ suspects: suspect }) : this.#onDelayed())),
      callId,
      "could not release a lease: its JobCall waits until the lease expires",
    );
  }

  /** Releases a lease that is still held when jobgate stops. */
  releaseAtStop(lease: OutLease): void {
    if (lease.holder?.countsAtStop(lease) === true) this.giveUp(lease, "jobgate stopped during its run");
    else this.release(lease, { excused: true });
  }

  /** Ends a lease as a failed attempt. Its JobCall is due at once. */
  giveUp({ callId, leaseToken }: Lease, reason: string): void {
    const retry = { delayMs: 0, reason, ...this.#retry };
    this.#send(
      this.#workQueue.retry({ callId, leaseToken }, retry).then(() => this.#onReady()),
      callId,
      "could not end a lease: its JobCall waits until the lease expires",
    );
  }

  /** Dead-letters overdue JobCalls that have used up their attempts, even if no stream claims them. */
  async expireLeases(): Promise<void> {
    const deadLettered = this.#workQueue.expireLeases(this.#retry.maxAttempts).then(() => undefined);
    this.add(deadLettered.catch(() => undefined));
    await deadLettered;
  }

  /** @param request must not reject */
  add(request: Promise<void>): void {
    const done = request.finally(() => this.#underWay.delete(done));
    this.#underWay.add(done);
  }

  /** Resolves when no request is in progress, including requests that answers start. */
  async idle(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  #send(request: Promise<void>, callId: number, failure: string): void {
    this.add(request.catch((error: unknown) => this.#logger.warn({ err: error, callId }, failure)));
  }
}
