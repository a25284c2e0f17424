import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { Logger } from "pino";
import { BackgroundLoop } from "../../core/background-loop.ts";
import type { BackgroundService } from "../../core/background-service.ts";
import type { Clock } from "../../core/clock.ts";
import type { EventHub } from "../../core/events.ts";
import { LeaseLock, type Locks } from "../../core/lease-lock.ts";
import type { PaymentRecord } from "../../core/payment.ts";
import type { CallLookup } from "../../store/contract/call-lookup.ts";
import type {
  EndingAuthorization,
  PaymentJournal,
  UndecidedPayment,
} from "../../store/contract/payment-journal.ts";
import type { Methods } from "../methods/methods.ts";
import type { PayerFunds } from "./payer-funds.ts";
import { longestDelay, RetryTimes } from "./retry-times.ts";
import type { Settlement } from "./settlement.ts";
import { UndecidedPayments } from "./undecided-payments.ts";

interface Parts {
  readonly journal: PaymentJournal & Locks & Pick<CallLookup, "findCall">;
  readonly settlement: Pick<
    Settlement,
    "charge" | "noteCharge" | "findRunning" | "forgetRunning" | "mayHaveMoved"
  >;
  readonly funds: Pick<PayerFunds, "findShortfall">;
  readonly methods: Pick<Methods, "find">;
  /** Reports acks at once. If undefined, a charge waits for the next round. */
  readonly events: EventHub | undefined;
  /** Time between two rounds. */
  readonly roundMs: number;
  /** Time between the first two attempts at a charge. Each further attempt waits twice as long, at most 30 s. */
  readonly firstDelayMs: number;
  /** Monotonic, for delays. */
  readonly elapsed: Clock;
  /** Wall clock, on which authorizations expire. */
  readonly clock: Clock;
  readonly logger: Logger;
}

type Charge = Pick<UndecidedPayment, "key" | "fingerprint">;

/** Charges in progress at once. Each waits for a transaction to be mined. */
const MAX_IN_PROGRESS = 256;
/** Charges that are decided within this time share one query of the journal. */
const GATHER_MS = 10;
/** Time after a purchase within which the first delivery uses the funds of the payer that the purchase has read. */
export const FUNDS_MS = 20;
/** Authorizations that are ended in one step. */
const ENDED_AT_ONCE = 200;
/** Lock of the replica that charges, because a facilitator would refuse one of two requests for the same charge. */
const LOCK = "charges";
const HELD_MS = 10_000;
const RENEW_MS = 3_000;

/**
 * Collects the charges that come after jobs: charges of acked jobs, and charges of jobs whose payment is about to end. Tries
 * again until the charge is settled or can no longer be settled.
 */
export class Charges implements BackgroundService {
  readonly #parts: Parts;
  readonly #lock: LeaseLock;
  readonly #loop: BackgroundLoop;
  readonly #settling: UndecidedPayments;
  readonly #inProgress = new Map<string, Promise<void>>();
  readonly #retries: RetryTimes;
  #settleMarginSecs: number;
  #unsubscribe: (() => void) | undefined;

  constructor(parts: Parts & { readonly settleMarginSecs: number }) {
    this.#parts = parts;
    this.#retries = new RetryTimes(parts.elapsed);
    this.#settling = new UndecidedPayments({
      journal: parts.journal,
      state: "settling",
      clock: parts.elapsed,
    });
    const { journal: locks, roundMs, logger } = parts;
    this.#lock = new LeaseLock({
      locks,
      name: LOCK,
      owner: randomUUID(),
      heldMs: HELD_MS,
      renewMs: RENEW_MS,
    });
    this.#loop = new BackgroundLoop({
      step: () => this.#step(),
      retryMs: roundMs,
      onTrouble: (error) => logger.error({ err: error }, "could not charge; trying again"),
      onRecovery: () => logger.info("charges are settled again"),
    });
    this.#settleMarginSecs = parts.settleMarginSecs;
  }

  /** Charges jobs that still run this long before their authorizations end. */
  reload(settleMarginSecs: number): void {
    this.#settleMarginSecs = settleMarginSecs;
  }

  async start(): Promise<void> {
    this.#unsubscribe = this.#parts.events?.subscribe(
      ({ callId, what }) => {
        if (what.kind !== "paymentDecided") return;
        if (what.state === "settling") this.#decided(callId, what.amount);
        else this.#parts.settlement.forgetRunning(callId);
      },
      ["paymentDecided"],
    );
    await this.#loop.start();
  }

  /** Also waits for the charges in progress. */
  async stop(): Promise<void> {
    this.#unsubscribe?.();
    await this.#loop.stop();
    await Promise.all(this.#inProgress.values());
    await this.#lock.giveUp(this.#parts.logger);
  }

  /**
   * Checks a call that is about to run.
   * @returns why the payer can no longer pay; undefined if the payer can, if the chain is not available, or if nothing is left to charge
   */
  async findShortfall(callId: number): Promise<string | undefined> {
    const { funds, settlement, elapsed } = this.#parts;
    // A claim can share the commit of the purchase. The claim's outcome is then read before the purchase's outcome.
    await setImmediate();
    const { record, fundsSeenAt = Number.NEGATIVE_INFINITY } = settlement.findRunning(callId) ?? {};
    if (elapsed() - fundsSeenAt <= FUNDS_MS) return undefined;
    const payment = record ?? (await this.#findAuthorized(callId));
    const shortfall = payment && (await funds.findShortfall(payment));
    if (shortfall === undefined || payment?.charge !== "after") return shortfall;
    // The payer may already have paid exactly this amount, because others can also use the authorization.
    return (await settlement.mayHaveMoved(payment)) ? undefined : shortfall;
  }

  async #findAuthorized(callId: number): Promise<PaymentRecord | undefined> {
    const { journal } = this.#parts;
    const call = await journal.findCall(callId);
    const payment =
      call?.charge?.state === "authorized" ? await journal.findPayment(call.payment) : undefined;
    return payment?.state === "authorized" ? payment : undefined;
  }

  /**
   * Begins a charge at once if its payment is remembered, so that the buyer does not wait for a query of the journal.
   */
  #decided(callId: number, amount: string): void {
    const record = this.#parts.settlement.noteCharge(callId, amount);
    const wake = () => this.#loop.wake(GATHER_MS);
    // Another process may hold the lock, so the next round tries to take it.
    if (record === undefined || this.#lock.leftMs === 0) wake();
    else
      this.#lock.hold().then((isHeld) => {
        if (isHeld && this.#canBegin(record)) this.#begin(record, record);
      }, wake);
  }

  /** @returns time until the next step */
  async #step(): Promise<number> {
    if (await this.#lock.hold()) await this.#collect();
    return this.#parts.roundMs;
  }

  async #collect(): Promise<void> {
    await this.#endAuthorizations();
    for (const payment of await this.#settling.next()) {
      if (this.#canBegin(payment)) this.#begin(payment);
    }
  }

  async #endAuthorizations(): Promise<void> {
    const { journal, methods, clock, logger } = this.#parts;
    const nowSecs = Math.ceil(clock() / 1000);
    const beforeSecs = nowSecs + this.#settleMarginSecs;
    const mayRun = ({ transferMethod, validBefore }: EndingAuthorization) => {
      const { marginSecs = this.#settleMarginSecs } = methods.find(transferMethod)?.endsSoon ?? {};
      return validBefore >= nowSecs + marginSecs;
    };
    // Each payment is tried once in a round, because some payments stay in the list. Their JobCall is missing in a
    // damaged store, or their job may continue.
    const tried = new Set<number>();
    let stayed = 0;
    while (!this.#loop.isStopped) {
      const limit = ENDED_AT_ONCE + stayed;
      const listed = await journal.listEndingAuthorizations(beforeSecs, limit);
      const untried = listed.filter(({ callId }) => !tried.has(callId));
      const callIds = untried.flatMap((one) => (mayRun(one) ? [] : one.callId));
      stayed += untried.length - callIds.length;
      for (const outcome of await Promise.all(callIds.map((callId) => journal.endAuthorization(callId)))) {
        if (outcome.kind === "not_open") stayed++;
        if (outcome.kind !== "dead_lettered") continue;
        const { callId, reason } = outcome.deadLettered;
        logger.warn({ callId }, `a paid job was not run: ${reason}`);
      }
      if (untried.length === 0 || listed.length < limit) return;
      for (const { callId } of untried) tried.add(callId);
    }
  }

  #canBegin({ fingerprint }: Charge): boolean {
    if (this.#loop.isStopped || this.#inProgress.size >= MAX_IN_PROGRESS) return false;
    return !this.#inProgress.has(fingerprint) && this.#retries.isDue(fingerprint);
  }

  /**
   * @param settling the payment, if it was just decided. Otherwise the journal is read again, because a listed payment may
   *   have been decided in the meantime.
   */
  #begin(payment: Charge, settling?: PaymentRecord): void {
    const { fingerprint } = payment;
    const charging = this.#charge(payment, settling).finally(() => this.#inProgress.delete(fingerprint));
    this.#inProgress.set(fingerprint, charging);
  }

  async #charge({ key, fingerprint }: Charge, settling?: PaymentRecord): Promise<void> {
    const { journal, settlement, firstDelayMs, clock, logger } = this.#parts;
    let longestDelayMs = longestDelay(Number.POSITIVE_INFINITY);
    try {
      const current = settling ?? (await journal.findPayment(key));
      if (current?.state !== "settling") return;
      longestDelayMs = longestDelay(current.validBefore * 1_000 - clock());
      const { kind, needsSecondLook } = await settlement.charge(current);
      if (kind !== "undecided") return this.#retries.forget(fingerprint);
      if (needsSecondLook) return this.#retries.retrySoon(fingerprint, firstDelayMs);
    } catch (error) {
      logger.warn({ err: error, payment: key }, "could not settle a charge; trying again");
    }
    this.#retries.retryLater(fingerprint, firstDelayMs, longestDelayMs);
  }
}
