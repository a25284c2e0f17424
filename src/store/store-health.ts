import type { Logger } from "pino";
import type { StoreStatus } from "./store.ts";

const PROBE_INTERVAL_MS = 1000;

/**
 * Tracks whether the store works, and probes for recovery once it did not. Only a probe shows that it works again, because
 * other operations can succeed without a write or a lookup. Probes run at a bounded rate, so that a store without traffic
 * recovers too and a broken one is not hammered.
 */
export class StoreHealth {
  readonly #probe: () => Promise<unknown>;
  readonly #logger: Logger | undefined;
  readonly #firstProbeMs: number;
  #reason: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;
  #takesWork = true;

  constructor(options: {
    readonly probe: () => Promise<unknown>;
    readonly logger: Logger | undefined;
    /** Wait for the first probe after a failed write. Default: the same as for the next ones. */
    readonly firstProbeMs?: number;
  }) {
    this.#probe = options.probe;
    this.#logger = options.logger;
    this.#firstProbeMs = options.firstProbeMs ?? PROBE_INTERVAL_MS;
  }

  status(pending: number, maxPending: number): StoreStatus {
    const reason = this.#reason;
    const full = pending >= maxPending;
    return { writable: reason === undefined, pending, full, ...(reason === undefined ? {} : { reason }) };
  }

  /** Why the store cannot be written to; undefined while it can. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** A write failed: probes until one succeeds. */
  failed(reason: string): void {
    if (this.#ended) return;
    if (this.#reason === undefined) this.#logger?.error({ reason }, "the store cannot write");
    this.#reason = reason;
    this.#scheduleProbe(this.#firstProbeMs);
  }

  /** Refuses new work after a failed lookup until a probe succeeds, because its clients could not look it up. */
  lookupFailed(reason: string): void {
    if (this.#ended) return;
    if (this.#takesWork) this.#logger?.error({ reason }, "the store cannot look things up");
    this.#takesWork = false;
    this.#reason = reason;
    this.#scheduleProbe();
  }

  /** False after a failed lookup, and for good after {@link died}. */
  get takesWork(): boolean {
    return this.#takesWork;
  }

  /** The store will never work again. */
  died(reason: string): void {
    if (this.#ended) return;
    this.stop();
    this.#takesWork = false;
    this.#reason = reason;
    this.#logger?.fatal({ reason }, "the store is gone: restart the gateway");
  }

  stop(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
  }

  async #probeOnce(): Promise<void> {
    const failed = await this.#probe().then(
      () => false,
      () => true,
    );
    this.#timer = undefined;
    if (failed) this.#scheduleProbe();
    else this.#recovered();
  }

  #scheduleProbe(afterMs = PROBE_INTERVAL_MS): void {
    if (this.#ended || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => void this.#probeOnce(), afterMs);
  }

  #recovered(): void {
    if (this.#ended) return;
    this.#reason = undefined;
    this.#takesWork = true;
    this.#logger?.info("the store works again");
  }
}
