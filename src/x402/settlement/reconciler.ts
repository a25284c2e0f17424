import type { Logger } from "pino";
import type { BackgroundService } from "../../core/background-service.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import type {
  PaymentJournal,
  UndecidedPayment,
  UndecidedState,
} from "../../store/contract/payment-journal.ts";
import type { ChainEvidence } from "./chain-evidence.ts";
import type { PaymentsInProgress } from "./payments-in-progress.ts";
import type { Settlement } from "./settlement.ts";

interface Parts {
  readonly journal: PaymentJournal;
  readonly settlement: Settlement;
  readonly evidence: Pick<ChainEvidence, "covers">;
  /** Longest time that a request waits for the facilitator to settle. */
  readonly settleTimeoutMs: number;
  /** Payments that a request is working on, which the reconciler leaves alone. */
  readonly inProgress: PaymentsInProgress;
  /** Time between two rounds. */
  readonly roundMs: number;
  /** Time between the first two checks of a payment; each next one waits twice as long, at most 30 s. */
  readonly firstDelayMs: number;
  /**
   * Time between two looks at unresolved and decided payments. Unresolved ones can still become decidable: a chain's node
   * catches up, or the operator configures an RPC.
   */
  readonly slowRoundMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

const CONCURRENCY = 8;
/** Longest delay before the next check of one payment; each is twice the last. */
const MAX_DELAY_MS = 30_000;
const MAX_DECIDED_DELAY_MS = 3_600_000;
/** Payments whose next check is remembered; a forgotten one is checked early. */
const MAX_BACKOFFS = 20_000;
/** Time that a request at another replica takes beside the facilitator's. */
const OTHER_REPLICA_MARGIN_MS = 5_000;

/**
 * Decides payments that requests left undecided because they did not see the settlement end: the
 * facilitator, the chain or jobgate itself went away. Looks at recent decisions again, too, because the chain may show
 * something else later. Runs in the background, apart from the requests.
 */
export class Reconciler implements BackgroundService {
  readonly #parts: Parts;
  /** Time of the next check of each undecided payment, by fingerprint. */
  readonly #backoff = boundedCache<string, { nextAt: number; delayMs: number }>(MAX_BACKOFFS);
  readonly #intents: UndecidedPayments;
  readonly #unresolved: UndecidedPayments;
  readonly #watched: UndecidedPayments;
  #nextSlowRoundAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#intents = new UndecidedPayments(parts.journal, "intent");
    this.#unresolved = new UndecidedPayments(parts.journal, "unresolved");
    this.#watched = new UndecidedPayments(parts.journal, "watched");
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
        this.#parts.logger.error({ err: error }, "reconciliation failed; trying again"),
      )
      .finally(() => {
        if (!this.#stopped) this.#timer = setTimeout(() => this.#run(), this.#parts.roundMs);
      });
  }

  async #reconcile(): Promise<void> {
    const { journal, settlement, slowRoundMs, clock } = this.#parts;
    const listed = await this.#intents.next();
    if (clock() >= this.#nextSlowRoundAt) {
      listed.push(...(await this.#unresolved.next()));
      await settlement.forgetDecided();
      while (await journal.endWatches());
      listed.push(...(await this.#watched.next()));
      this.#nextSlowRoundAt = clock() + slowRoundMs;
    }
    const due = listed.filter((payment) => this.#isDue(payment));
    const workers = Array.from({ length: CONCURRENCY }, async () => {
      for (let payment = due.shift(); payment !== undefined && !this.#stopped; payment = due.shift()) {
        await this.#recheck(payment);
      }
    });
    await Promise.all(workers);
  }

  #isDue(payment: UndecidedPayment): boolean {
    const { inProgress, clock } = this.#parts;
    const { fingerprint } = payment;
    if (inProgress.has(fingerprint) || this.#mayBeInProgressElsewhere(payment)) return false;
    return clock() >= (this.#backoff.get(fingerprint)?.nextAt ?? 0);
  }

  /**
   * Reports whether a request at another replica may be waiting for the settlement right now. If this replica asked too,
   * the facilitator would refuse one of the two, maybe the request. Reading the chain is always safe.
   */
  #mayBeInProgressElsewhere({ key, fingerprint, ageMs }: UndecidedPayment): boolean {
    const { journal, evidence, inProgress, settleTimeoutMs } = this.#parts;
    if (!journal.isShared || evidence.covers(key) || inProgress.wasLeftUndecided(fingerprint)) return false;
    return ageMs < settleTimeoutMs + OTHER_REPLICA_MARGIN_MS;
  }

  async #recheck(payment: UndecidedPayment): Promise<void> {
    const { journal, settlement, firstDelayMs, slowRoundMs, clock, logger } = this.#parts;
    const { fingerprint, key, state } = payment;
    const isDecided = state === "failed" || state === "settled";
    try {
      // A request may have decided it since it was listed: act only on what the journal says now.
      const current = this.#isDue(payment) ? await journal.findPayment(key) : undefined;
      if (current?.state !== payment.state) return;
      if (isDecided) await settlement.recheckDecided(current);
      else await settlement.recheck(current);
    } catch (error) {
      logger.warn({ err: error, payment: key }, "could not check a payment");
    }
    const [first, longest] = isDecided ? [slowRoundMs, MAX_DECIDED_DELAY_MS] : [firstDelayMs, MAX_DELAY_MS];
    const lastDelayMs = this.#backoff.get(fingerprint)?.delayMs ?? 0;
    const delayMs = Math.min(Math.max(lastDelayMs * 2, first), longest);
    this.#backoff.set(fingerprint, { delayMs, nextAt: clock() + delayMs });
  }
}

const PAGE = 200;
const MAX_AT_ONCE = 2_000;

/**
 * Cursor over the undecided or watched payments, oldest first. Each call continues where the last one ended and
 * starts again after the newest, so that no payment waits for ever behind others that stay undecided.
 */
export class UndecidedPayments {
  readonly #journal: Pick<PaymentJournal, "listUndecided">;
  readonly #state: UndecidedState;
  /** Call ID of the last payment returned. */
  #after: number | undefined;

  constructor(journal: Pick<PaymentJournal, "listUndecided">, state: UndecidedState) {
    this.#journal = journal;
    this.#state = state;
  }

  /** Returns the next payments, at most 2000. */
  async next(): Promise<UndecidedPayment[]> {
    const found: UndecidedPayment[] = [];
    do {
      const from = this.#after === undefined ? {} : { after: this.#after };
      const page = await this.#journal.listUndecided({ state: this.#state, limit: PAGE, ...from });
      found.push(...page);
      this.#after = page.length < PAGE ? undefined : page.at(-1)?.callId;
    } while (this.#after !== undefined && found.length < MAX_AT_ONCE);
    return found;
  }
}
