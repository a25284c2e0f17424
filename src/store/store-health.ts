import type { Logger } from "pino";
import type { StoreStatus } from "./store.ts";

const PROBE_INTERVAL_MS = 1000;

/**
 * Tracks whether the store works, and probes it after a failure. Only a probe shows that the store works again, because
 * other operations can succeed without a write or a lookup. Probes also let a store without traffic recover, and their rate
 * is bounded to spare a broken store.
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
    /** Delay of the first probe after a failed write. Default: the delay of the later probes. */
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

  /** Reason why the store cannot be written to; undefined if it can. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Records that a write failed, and probes until a probe succeeds. */
  failed(reason: string): void {
    if (this.#ended) return;
    if (this.#reason === undefined) this.#logger?.error({ reason }, "the store cannot write");
    this.#reason = reason;
    this.#scheduleProbe(this.#firstProbeMs);
  }

  /** Refuses new work after a failed lookup until a probe succeeds, because its clients could not look up their results. */
  lookupFailed(reason: string): void {
    if (this.#ended) return;
    if (this.#takesWork) this.#logger?.error({ reason }, "the store cannot be read");
    this.#takesWork = false;
    this.#reason = reason;
    this.#scheduleProbe();
  }

  /** False after a failed lookup, and for good after {@link died}. */
  get takesWork(): boolean {
    return this.#takesWork;
  }

  /** Records that the store will never work again. */
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
