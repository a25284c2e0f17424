import type { Logger } from "pino";
import { Backoff } from "../../core/backoff.ts";
import type { Clock } from "../../core/clock.ts";
import {
  type Facilitator,
  type FacilitatorRequest,
  type KindExtra,
  type PaymentKind,
  RateLimited,
  type Supported,
} from "../../x402/facilitators/facilitator.ts";
import { SupportedKinds } from "../../x402/facilitators/one-facilitator.ts";
import type { Methods } from "../../x402/methods/methods.ts";

const RETRIES = { firstMs: 1_000, longestMs: 60_000 };
/** Number of failures in a row after which other facilitators are called first. */
const MAX_FAILURES = 3;

interface Parts {
  readonly facilitator: Facilitator;
  /** Scheme by which this build settles payments up to a ceiling. */
  readonly scheme: Methods["ceilingScheme"];
  readonly clock: Clock;
  readonly logger: Logger;
}

/** One facilitator's health: the kinds of payment that it supports, and whether it answers and settles. */
export class FacilitatorHealth {
  readonly #parts: Parts;
  readonly #circuits = { supported: new Circuit(), verify: new Circuit(), settle: new Circuit() };
  readonly #kinds: SupportedKinds;

  /** @param parts `clock` is for durations */
  constructor(parts: Parts) {
    this.#parts = parts;
    const onRead = (isAnswered: boolean) =>
      this.#logChange(() => {
        if (isAnswered) this.#circuits.supported.close();
        else this.#circuits.supported.fail(parts.clock());
      });
    this.#kinds = new SupportedKinds({ ...parts, onRead });
  }

  /** Queries `/supported` now and from time to time. Does not wait for the answer. */
  startPolling(): void {
    this.#kinds.startPolling();
  }

  stop(): void {
    this.#kinds.stop();
  }

  /** The last answer of `/supported`; undefined until there is an answer. */
  get supported(): Supported | undefined {
    return this.#kinds.answer;
  }

  /** Reports whether the facilitator accepts payments of this kind, as far as is known. */
  maySupport(kind: PaymentKind): boolean {
    return this.#kinds.maySupport(kind);
  }

  /** Returns the `extra` of a kind of payment; undefined while the facilitator is not known to accept the kind. */
  extraOf(kind: PaymentKind): KindExtra | undefined {
    return this.#kinds.extraOf(kind);
  }

  /**
   * Returns the account that settles by the scheme of ceilings on a network; undefined if there is no such account, or
   * it is not known yet.
   */
  facilitatorAddressOn(network: string): string | undefined {
    return this.#kinds.facilitatorAddressOn(network);
  }

  /** Reports whether the facilitator may settle what the payer has signed, as far as is known. */
  maySettle(request: FacilitatorRequest): boolean {
    return this.#kinds.maySettle(request);
  }

  /**
   * Returns true if the facilitator is called before others. A failed facilitator is tried again after some time, by one
   * request at a time.
   */
  isReady(): boolean {
    const { supported, verify, settle } = this.#circuits;
    const now = this.#parts.clock();
    return !supported.isOpen && verify.isReady(now) && settle.isReady(now);
  }

  /**
   * Records that the facilitator is called now. If it had failed, other requests wait until this request has shown whether
   * it works.
   */
  noteAsked(): void {
    const now = this.#parts.clock();
    this.#circuits.verify.noteTrial(now);
    this.#circuits.settle.noteTrial(now);
  }

  succeeded(operation: "verify" | "settle"): void {
    this.#logChange(() => this.#circuits[operation].close());
  }

  /** Records that the facilitator refused a payment. */
  refused(): void {
    this.#kinds.readSoon();
  }

  /** @param error may hold the time for which a busy facilitator asks clients to wait */
  failed(operation: "verify" | "settle", error?: unknown): void {
    const cause = error instanceof Error ? error.cause : undefined;
    const retryAfterMs = cause instanceof RateLimited ? cause.retryAfterMs : undefined;
    this.#logChange(() => this.#circuits[operation].fail(this.#parts.clock(), retryAfterMs));
  }

  #logChange(change: () => void): void {
    const isOpen = () => Object.values(this.#circuits).some((circuit) => circuit.isOpen);
    const wasOpen = isOpen();
    change();
    if (wasOpen === isOpen()) return;
    const facilitator = this.#parts.facilitator.name;
    if (wasOpen) this.#parts.logger.info({ facilitator }, "the facilitator works again");
    else
      this.#parts.logger.warn(
        { facilitator },
        "the facilitator fails: other facilitators are called before it",
      );
  }
}

/** Circuit breaker: opens after some failures in a row, then lets one request try from time to time. */
class Circuit {
  #failures = 0;
  readonly #trials = new Backoff(RETRIES);
  #nextTrialAt = 0;

  get isOpen(): boolean {
    return this.#failures >= MAX_FAILURES;
  }

  isReady(now: number): boolean {
    return !this.isOpen || now >= this.#nextTrialAt;
  }

  noteTrial(now: number): void {
    if (!this.isOpen || now < this.#nextTrialAt) return;
    this.#nextTrialAt = now + this.#trials.next();
  }

  fail(now: number, retryAfterMs?: number): void {
    const wasOpen = this.isOpen;
    this.#failures = retryAfterMs === undefined ? this.#failures + 1 : MAX_FAILURES;
    if (!wasOpen && this.isOpen) {
      this.#trials.reset();
      this.#nextTrialAt = now + this.#trials.next();
    }
    if (retryAfterMs !== undefined) this.#nextTrialAt = Math.max(this.#nextTrialAt, now + retryAfterMs);
  }

  close(): void {
    this.#failures = 0;
  }
}
