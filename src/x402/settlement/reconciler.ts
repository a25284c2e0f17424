import type { Logger } from "pino";
import type { BackgroundService } from "../../core/background-service.ts";
import type { Clock } from "../../core/clock.ts";
import type { PaymentRecord } from "../../core/payment.ts";
import type { PaymentJournal, UndecidedPayment } from "../../store/contract/payment-journal.ts";
import type { ChainEvidence } from "./chain-evidence.ts";
import type { PaymentsInProgress } from "./payments-in-progress.ts";
import { decidedChecksDue, longestDelay, RetryTimes } from "./retry-times.ts";
import type { Settlement } from "./settlement.ts";
import { UndecidedPayments } from "./undecided-payments.ts";

interface Parts {
  readonly journal: PaymentJournal;
  readonly settlement: Pick<Settlement, "recheck" | "recheckDecided" | "askAgain" | "forgetDecided">;
  readonly evidence: Pick<ChainEvidence, "covers" | "timeOf">;
  /** Longest time that a request waits for the facilitator to settle. */
  readonly settleTimeoutMs: number;
  /** Payments that a request is working on, which the reconciler leaves alone. */
  readonly inProgress: PaymentsInProgress;
  /** Time between two rounds. */
  readonly roundMs: number;
  /** Time between the first two checks of a payment. Each further check waits twice as long, at most 30 s. */
  readonly firstDelayMs: number;
  /**
   * Time between two checks of unresolved and decided payments. An unresolved payment can still become decidable, because a
   * chain's node catches up or the operator configures an RPC.
   */
  readonly slowRoundMs: number;
  /** Measures durations. */
  readonly clock: Clock;
  /** Wall clock, on which authorizations expire. */
  readonly wallClock: Clock;
  readonly logger: Logger;
}

/** Largest number of concurrent observations of the chain. */
const CONCURRENCY = 8;
/** Shortest and longest time between checks of a payment that settled early. */
const EARLY_DELAY_MS = 5_000;
const LONGEST_EARLY_DELAY_MS = 15_000;
/** Largest number of concurrent repeated settlement requests. */
const MAX_ASKED_AT_ONCE = 8;
/** Time that a request at another replica needs in addition to the facilitator's time. */
const OTHER_REPLICA_MARGIN_MS = 5_000;

/**
 * Decides payments that requests left undecided, because the facilitator, the chain or jobgate itself became
 * unavailable before the settlement ended. Also rechecks recent decisions, because the chain may show a different
 * outcome later. Runs in the background, apart from the requests.
 */
export class Reconciler implements BackgroundService {
  readonly #parts: Parts;
  readonly #retries: RetryTimes;
  readonly #intents: UndecidedPayments;
  readonly #early: UndecidedPayments;
  readonly #unresolved: UndecidedPayments;
  readonly #watched: UndecidedPayments;
  /** Checks in progress, by fingerprint. */
  readonly #looking = new Map<string, Promise<void>>();
  /**
   * Repeated settlement requests, by fingerprint. They are separate, so that checks of other payments do not wait for a slow
   * facilitator.
   */
  readonly #asking = new Map<string, Promise<void>>();
  #nextSlowRoundAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#retries = new RetryTimes(parts.clock);
    const { journal, clock } = parts;
    this.#intents = new UndecidedPayments({ journal, state: "intent", clock });
    this.#early = new UndecidedPayments({ journal, state: "early", clock });
    this.#unresolved = new UndecidedPayments({ journal, state: "unresolved", clock });
    this.#watched = new UndecidedPayments({ journal, state: "watched", clock });
  }

  async start(): Promise<void> {
    this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#round;
    await Promise.all(this.#looking.values());
    await Promise.all(this.#asking.values());
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
    listed.push(...(await this.#early.next()));
    if (clock() >= this.#nextSlowRoundAt) {
      listed.push(...(await this.#unresolved.next()));
      await settlement.forgetDecided();
      while (await journal.endWatches());
      listed.push(...(await this.#nextWatched()));
      this.#nextSlowRoundAt = clock() + slowRoundMs;
    }
    for (const payment of listed) {
      if (this.#stopped) return;
      if (!this.#isDue(payment)) continue;
      if (this.#looking.size >= CONCURRENCY) await Promise.race(this.#looking.values());
      // A request may be working on the payment by now.
      if (this.#isDue(payment)) this.#look(payment);
    }
  }

  async #nextWatched(): Promise<UndecidedPayment[]> {
    const { slowRoundMs } = this.#parts;
    const listed = await this.#watched.next();
    const sinceMs = this.#watched.sinceLastPassMs;
    return listed.filter(
      ({ ageMs }) => decidedChecksDue(ageMs, slowRoundMs) > decidedChecksDue(ageMs - sinceMs, slowRoundMs),
    );
  }

  /** The next round does not wait for a slow RPC. */
  #look(payment: UndecidedPayment): void {
    const { fingerprint, state } = payment;
    const isDecided = state === "failed" || state === "settled" || state === "released";
    const recheck = isDecided ? this.#recheckDecided(payment) : this.#recheck(payment);
    const looking = recheck.then(() => void this.#looking.delete(fingerprint));
    this.#looking.set(fingerprint, looking);
  }

  #isDue(payment: UndecidedPayment): boolean {
    const { fingerprint } = payment;
    if (this.#parts.inProgress.has(fingerprint)) return false;
    if (this.#looking.has(fingerprint) || this.#asking.has(fingerprint)) return false;
    if (this.#mayBeInProgressElsewhere(payment)) return false;
    return this.#retries.isDue(fingerprint);
  }

  /**
   * Returns true if a request at another replica may be waiting for the settlement. If this replica also requested
   * settlement, the facilitator would refuse one of the two requests, possibly the request for which the client waits.
   * Reading the chain is always safe.
   */
  #mayBeInProgressElsewhere({ key, fingerprint, ageMs }: UndecidedPayment): boolean {
    const { journal, evidence, inProgress, settleTimeoutMs } = this.#parts;
    if (!journal.isShared || evidence.covers(key) || inProgress.wasLeftUndecided(fingerprint)) return false;
    return ageMs < settleTimeoutMs + OTHER_REPLICA_MARGIN_MS;
  }

  async #recheck(payment: UndecidedPayment): Promise<void> {
    const { journal, settlement, evidence, firstDelayMs, wallClock, logger } = this.#parts;
    const { fingerprint, key, state } = payment;
    let validBefore = Number.POSITIVE_INFINITY;
    try {
      // A request may have decided the payment after it was listed, so the journal is read again.
      const current = await journal.findPayment(key);
      if (current?.state !== state) return;
      ({ validBefore } = current);
      const { kind, mayAskAgain, needsSecondLook } = await settlement.recheck(current);
      if (kind !== "undecided") return this.#retries.forget(fingerprint);
      if (needsSecondLook) return this.#retries.retrySoon(fingerprint, firstDelayMs);
      if (mayAskAgain && state === "intent") this.#ask(current);
    } catch (error) {
      logger.warn({ err: error, payment: key }, "could not check a payment");
    }
    // The authorization expires on the chain's clock, which may be ahead.
    const now = Math.max(wallClock(), evidence.timeOf(key) ?? 0);
    this.#retries.retryLater(fingerprint, firstDelayMs, longestDelay(validBefore * 1_000 - now));
  }

  async #recheckDecided({ key, state, fingerprint }: UndecidedPayment): Promise<void> {
    const { journal, settlement, logger } = this.#parts;
    if (state === "settled") this.#retries.retryLater(fingerprint, EARLY_DELAY_MS, LONGEST_EARLY_DELAY_MS);
    try {
      const current = await journal.findPayment(key);
      if (current?.state === state) await settlement.recheckDecided(current);
    } catch (error) {
      logger.warn({ err: error, payment: key }, "could not check a decided payment");
    }
  }

  #ask(payment: PaymentRecord): void {
    const { settlement, inProgress, logger } = this.#parts;
    const { fingerprint, key } = payment;
    if (inProgress.has(fingerprint) || this.#asking.size >= MAX_ASKED_AT_ONCE) return;
    const asking = settlement
      .askAgain(payment)
      .catch((error: unknown) =>
        logger.warn({ err: error, payment: key }, "could not settle a payment again"),
      )
      .then(() => void this.#asking.delete(fingerprint));
    this.#asking.set(fingerprint, asking);
  }
}
