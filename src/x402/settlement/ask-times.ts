import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import type { PaymentIntent, PaymentRecord } from "../../core/payment.ts";
import type { PaymentJournal } from "../../store/contract/payment-journal.ts";

interface Parts {
  readonly journal: Pick<PaymentJournal, "isShared">;
  /** Wall clock, which authorizations end by. */
  readonly clock: Clock;
  /** Measures durations. */
  readonly elapsed: Clock;
}

/** Shortest time between two requests to settle one payment. */
const ASK_AGAIN_MS = 5_000;
/** Time that an authorization needs to be settled and mined. */
const MIN_LEFT_MS = 6_000;
/** Payments whose last request is remembered, more than begin in 5 s; the facilitator may be queried early for a forgotten payment. */
const MAX_ASKED = 4_000;

/** Times at which this process last had payments settled. */
export class AskTimes {
  readonly #parts: Parts;
  /** Keyed by fingerprint. */
  readonly #askedAt = boundedCache<string, number>(MAX_ASKED);

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  note({ fingerprint }: Pick<PaymentIntent, "fingerprint">): void {
    this.#askedAt.set(fingerprint, this.#parts.elapsed());
  }

  /**
   * Reports whether a payment may be settled again now, as far as time is concerned. A replica that begins a payment settles
   * it at once, so the other replicas, and itself after a restart, take that time for the last request.
   */
  mayAskAgain({ fingerprint, validBefore, createdAt }: PaymentRecord): boolean {
    const { journal, elapsed, clock } = this.#parts;
    const now = clock();
    if (validBefore * 1_000 - now < MIN_LEFT_MS) return false;
    const askedAt = this.#askedAt.get(fingerprint);
    if (askedAt !== undefined) return elapsed() - askedAt >= ASK_AGAIN_MS;
    return !journal.isShared || now - createdAt >= ASK_AGAIN_MS;
  }
}
