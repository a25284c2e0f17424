import type { Logger } from "pino";
import { GatewayError } from "../core/errors.ts";

/** Shortest time between two sums of all results. */
const LOOK_EVERY_MS = 5_000;
/** Shortest time between two sums, as a multiple of the time that the last sum took. */
const REST = 50;

/** Limit on the size of all results: the store's last sum plus the results that this process has stored since. */
export class ResultRoom {
  readonly #maxBytes: number;
  readonly #sum: () => Promise<number>;
  readonly #logger: Logger | undefined;
  /** Resolves after the first sum, so that a reached limit applies right after a restart. */
  readonly #known: Promise<void>;
  #bytes = 0;
  #isFull = false;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(options: {
    readonly maxBytes: number;
    /** Returns the size of all results in the store. */
    readonly sum: () => Promise<number>;
    readonly logger: Logger | undefined;
  }) {
    this.#maxBytes = options.maxBytes;
    this.#sum = options.sum;
    this.#logger = options.logger;
    this.#known = this.#look();
  }

  /** Adds the size of a result that is being stored. */
  add(bytes: number): void {
    this.#set(this.#bytes + bytes);
  }

  /** Returns the refusal of a new payment while the limit is reached. */
  async refusal(): Promise<GatewayError | undefined> {
    await this.#known;
    if (!this.#isFull) return undefined;
    return new GatewayError(
      "store_full",
      "There is no room for results. Nothing was charged: try again later.",
      {
        headers: { "retry-after": "60" },
      },
    );
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  async #look(): Promise<void> {
    const begunAt = performance.now();
    // The store's health reports the failure.
    const bytes = await this.#sum().catch(() => undefined);
    if (this.#isStopped) return;
    if (bytes !== undefined) this.#set(bytes);
    const waitMs = Math.max(LOOK_EVERY_MS, REST * (performance.now() - begunAt));
    this.#timer = setTimeout(() => void this.#look(), waitMs).unref();
  }

  #set(bytes: number): void {
    this.#bytes = bytes;
    const isFull = bytes >= this.#maxBytes;
    if (isFull === this.#isFull) return;
    this.#isFull = isFull;
    const fields = { bytes, maxBytes: this.#maxBytes };
    if (isFull) this.#logger?.error(fields, "the results have no room left: paid requests are refused");
    else this.#logger?.info(fields, "the results have room again");
  }
}
