import { LRUCache } from "lru-cache";
import type { Logger } from "pino";
import type { BackgroundService } from "../../core/background-service.ts";
import type { Clock } from "../../core/clock.ts";
import type { PaymentJournal, UndecidedPayment } from "../../store/contract/payment-journal.ts";
import type { ChainEvidence } from "./chain-evidence.ts";
import type { PaymentsInHand } from "./payments-in-progress.ts";
import type { Settlement } from "./settlement.ts";
import { createUndecidedPayments } from "./undecided-payments.ts";

export interface ReconcilerOptions {
  readonly journal: PaymentJournal;
  readonly settlement: Settlement;
  readonly evidence: Pick<ChainEvidence, "covers">;
  /** How long a request may wait for the facilitator to settle. */
  readonly settleTimeoutMs: number;
  /** Payments that a request is working on: the reconciler keeps out of their way. */
  readonly inHand: PaymentsInHand;
  readonly clock: Clock;
  readonly logger: Logger;
}

const ROUND_EVERY_MS = 1_000;
/** What the operator is to look at can still decide itself: a chain's node catches up, an RPC is configured. */
const UNRESOLVED_EVERY_MS = 60_000;
const CONCURRENCY = 8;
const FIRST_DELAY_MS = 1_000;
const MAX_DELAY_MS = 30_000;
/** Payments whose next look is remembered; one that is forgotten is looked at early. */
const MAX_BACKOFFS = 20_000;
/** Of a request at another replica: what it takes beside the facilitator's time. */
const IN_OTHER_HANDS_MARGIN_MS = 5_000;

/**
 * Decides what requests had to leave undecided: payments whose settlement nobody saw to its end, because the
 * facilitator, the chain or jobgate itself went away. Runs beside the serving and never blocks it.
 */
export class Reconciler implements BackgroundService {
  readonly #options: ReconcilerOptions;
  /** When to look next at each undecided payment, by fingerprint. */
  readonly #backoff = new LRUCache<string, { nextAt: number; delayMs: number }>({ max: MAX_BACKOFFS });
  readonly #intents: () => Promise<UndecidedPayment[]>;
  readonly #unresolved: () => Promise<UndecidedPayment[]>;
  #lookAtUnresolvedAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#intents = createUndecidedPayments(options.journal, "intent");
    this.#unresolved = createUndecidedPayments(options.journal, "unresolved");
  }

  async start(): Promise<void> {
    this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#round;
  }

  #run(): void {
    this.#round = this.#reconcile()
      .catch((error: unknown) =>
        this.#options.logger.error({ err: error }, "reconciling failed: will be tried again"),
      )
      .finally(() => {
        if (!this.#stopped) this.#timer = setTimeout(() => this.#run(), ROUND_EVERY_MS);
      });
  }

  async #reconcile(): Promise<void> {
    const undecided = await this.#intents();
    if (this.#options.clock() >= this.#lookAtUnresolvedAt) {
      undecided.push(...(await this.#unresolved()));
      await this.#options.settlement.forgetDecided();
      this.#lookAtUnresolvedAt = this.#options.clock() + UNRESOLVED_EVERY_MS;
    }
    const due = undecided.filter((payment) => this.#isDue(payment));
    const workers = Array.from({ length: CONCURRENCY }, async () => {
      for (let payment = due.shift(); payment !== undefined && !this.#stopped; payment = due.shift()) {
        await this.#recheck(payment);
      }
    });
    await Promise.all(workers);
  }

  #isDue(payment: UndecidedPayment): boolean {
    const { inHand, clock } = this.#options;
    const { fingerprint } = payment;
    if (inHand.has(fingerprint) || this.#mayBeInOtherHands(payment)) return false;
    return clock() >= (this.#backoff.get(fingerprint)?.nextAt ?? 0);
  }

  /**
   * Whether a request at another replica may be waiting for its settlement right now. To ask for that as well would have
   * the facilitator refuse one of the two, and maybe the request; to look at the chain disturbs nobody.
   */
  #mayBeInOtherHands({ key, fingerprint, ageMs }: UndecidedPayment): boolean {
    const { journal, evidence, inHand, settleTimeoutMs } = this.#options;
    if (!journal.isShared || evidence.covers(key) || inHand.wasLeftUndecided(fingerprint)) return false;
    return ageMs < settleTimeoutMs + IN_OTHER_HANDS_MARGIN_MS;
  }

  async #recheck(payment: UndecidedPayment): Promise<void> {
    const { journal, settlement, clock, logger } = this.#options;
    const { fingerprint, key } = payment;
    try {
      // Requests may have decided it since it was listed; only what the journal says now is to be acted on.
      const current = this.#isDue(payment) ? await journal.findPayment(key) : undefined;
      if (current?.state !== "intent" && current?.state !== "unresolved") return;
      await settlement.recheck(current);
    } catch (error) {
      logger.warn({ err: error, payment: key }, "could not look at an undecided payment");
    }
    const delayMs = Math.min(
      (this.#backoff.get(fingerprint)?.delayMs ?? FIRST_DELAY_MS / 2) * 2,
      MAX_DELAY_MS,
    );
    this.#backoff.set(fingerprint, { delayMs, nextAt: clock() + delayMs });
  }
}
