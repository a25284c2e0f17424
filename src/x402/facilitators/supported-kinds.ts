import type { Logger } from "pino";
import { Backoff } from "../../core/backoff.ts";
import type { CeilingScheme } from "../wire/ceiling-scheme.ts";
import {
  type Facilitator,
  type FacilitatorRequest,
  type PaymentKind,
  RateLimited,
  type Supported,
} from "./facilitator.ts";

/** Time for which the answer of `/supported` is used. */
const FRESH_MS = 300_000;
const RETRIES = { firstMs: 1_000, longestMs: 60_000 };

interface Parts {
  readonly facilitator: Facilitator;
  /** Scheme whose payments one account settles; undefined if this build has none. */
  readonly scheme: CeilingScheme | undefined;
  readonly logger: Logger;
  /** Called after each question, unless the facilitator was asked too often. */
  readonly onRead: (isAnswered: boolean) => void;
}

/** Kinds of payment that one facilitator supports: the answer of its `/supported`, read from time to time. */
export class SupportedKinds {
  readonly #parts: Parts;
  readonly #retries = new Backoff(RETRIES);
  #answer: Supported | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Asks now and from time to time. Does not wait for the answer. */
  startPolling(): void {
    void this.#poll();
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  /** The last answer; undefined until there is one. */
  get answer(): Supported | undefined {
    return this.#answer;
  }

  /** Reports whether the facilitator takes payments of this kind, as far as is known. */
  maySupport({ x402Version, scheme, network }: PaymentKind): boolean {
    if (this.#answer === undefined) return true;
    return this.#answer.kinds.some(
      (kind) =>
        kind.x402Version === x402Version &&
        kind.scheme === scheme &&
        (kind.network === network || (kind.network === "eip155:*" && network.startsWith("eip155:"))),
    );
  }

  /** Returns the account that settles by the scheme of ceilings on a network; undefined if there is none, or it is not known yet. */
  settlerOn(network: string): string | undefined {
    const { scheme: wanted } = this.#parts;
    const kind = this.#answer?.kinds.find(
      ({ x402Version, scheme, network: on }) =>
        x402Version === 2 && scheme === wanted?.name && (on === network || on === "eip155:*"),
    );
    return wanted?.settlerIn(kind?.extra);
  }

  /** Reports whether the facilitator may settle what the payer has signed, as far as is known. */
  maySettle({ requirements }: Pick<FacilitatorRequest, "requirements">): boolean {
    const { scheme } = this.#parts;
    const settler = this.settlerOn(requirements.network);
    // The payer of a ceiling has signed for one account: no other can settle. One that is not known yet may be it.
    if (requirements.scheme !== scheme?.name || settler === undefined) return true;
    return settler.toLowerCase() === scheme.settlerIn(requirements.extra)?.toLowerCase();
  }

  async #poll(): Promise<void> {
    const delayMs = await this.#read();
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => void this.#poll(), delayMs);
    this.#timer.unref();
  }

  /** @returns the time until the next question */
  async #read(): Promise<number> {
    const { facilitator, logger, onRead } = this.#parts;
    try {
      this.#answer = await facilitator.supported();
    } catch (error) {
      logger.debug({ err: error, facilitator: facilitator.name }, "could not read /supported");
      const waitMs = this.#retries.next();
      // One that is asked too often works: the last answer stays in use.
      if (error instanceof RateLimited) return Math.max(error.retryAfterMs, waitMs);
      onRead(false);
      return waitMs;
    }
    this.#retries.reset();
    onRead(true);
    return FRESH_MS;
  }
}
