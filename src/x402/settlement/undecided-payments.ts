import type { Clock } from "../../core/clock.ts";
import type {
  PaymentJournal,
  UndecidedPayment,
  UndecidedState,
} from "../../store/contract/payment-journal.ts";

const PAGE = 200;
const MAX_AT_ONCE = 2_000;

/**
 * Cursor over the undecided or watched payments, oldest first. Each call continues where the last call ended and starts
 * again after the newest, so that no payment waits forever behind other payments that stay undecided.
 */
export class UndecidedPayments {
  readonly #journal: Pick<PaymentJournal, "listUndecided">;
  readonly #state: UndecidedState;
  readonly #clock: Clock;
  /** Call ID of the last payment returned. */
  #after: number | undefined;
  #passBeganAt = Number.NEGATIVE_INFINITY;
  #lastPassBeganAt = Number.NEGATIVE_INFINITY;

  constructor(parts: {
    readonly journal: Pick<PaymentJournal, "listUndecided">;
    readonly state: UndecidedState;
    /** Measures durations. */
    readonly clock: Clock;
  }) {
    this.#journal = parts.journal;
    this.#state = parts.state;
    this.#clock = parts.clock;
  }

  /** Maximum time since the last pass returned the payments that {@link next} has just returned; infinite in the first pass. */
  get sinceLastPassMs(): number {
    return this.#clock() - this.#lastPassBeganAt;
  }

  /** Returns the next payments, at most 2000. */
  async next(): Promise<UndecidedPayment[]> {
    const found: UndecidedPayment[] = [];
    if (this.#after === undefined) {
      this.#lastPassBeganAt = this.#passBeganAt;
      this.#passBeganAt = this.#clock();
    }
    do {
      const from = this.#after === undefined ? {} : { after: this.#after };
      const page = await this.#journal.listUndecided({ state: this.#state, limit: PAGE, ...from });
      found.push(...page);
      this.#after = page.length < PAGE ? undefined : page.at(-1)?.callId;
    } while (this.#after !== undefined && found.length < MAX_AT_ONCE);
    return found;
  }
}
