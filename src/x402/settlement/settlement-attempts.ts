import { setTimeout as sleep } from "node:timers/promises";
import type { SettleResponse } from "@x402/core/types";
import type { Logger } from "pino";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import { faultPoint } from "../../core/fault-points.ts";
import { isPartial, type PaymentIntent, type PaymentRecord } from "../../core/payment.ts";
import type { PaymentJournal } from "../../store/contract/payment-journal.ts";
import type {
  ExtensionResponses,
  FacilitatorRequest,
  SettlementAnswer,
} from "../facilitators/facilitator.ts";
import type { Facilitators } from "../facilitators/facilitators.ts";
import type { ChainEvidence } from "./chain-evidence.ts";
import type { Evidence, PaidEvidence } from "./payment-decision.ts";
import {
  believableSuccess,
  facilitatorRequest,
  type JournalledPayment,
  logFields,
} from "./payment-outcome.ts";

export interface AttemptParts {
  readonly facilitators: Facilitators;
  readonly evidence: ChainEvidence;
  /** Longest time that a request waits for the chain to show a settlement that the facilitator claims. */
  readonly confirmationTimeoutMs: number;
  /** Time after which the chain is first searched for a settlement that the facilitator has not answered yet. */
  readonly pendingLookMs: number;
  /** Measures durations. */
  readonly elapsed: Clock;
  readonly logger: Logger;
}

const CONFIRMATION_POLL_MS = 200;
/** Growth of the interval between observations while the facilitator does not answer. */
const PENDING_LOOK_FACTOR = 1.5;

/** Findings about a payment from a facilitator's answer and the chain. */
interface SettlementResult {
  readonly found: Evidence;
  /** The facilitator that was called last has refused. */
  readonly isRefused?: boolean | undefined;
  readonly extensionResponses?: ExtensionResponses | undefined;
}

/**
 * Requests settlement from facilitators, as the only class that does. If the chain must confirm settlements, a facilitator's
 * success is accepted only once the chain shows the payment. A facilitator's refusal never proves that no money moved.
 */
export class SettlementAttempts {
  readonly #parts: AttemptParts;

  constructor(parts: AttemptParts) {
    this.#parts = parts;
  }

  /**
   * Requests settlement from the facilitator that verified the payment, and from another facilitator only if two
   * observations of the chain show that the authorization is unused. Two facilitators cannot move the money twice, because
   * the token accepts a nonce once. But each might claim or deny the other's settlement, so the chain decides.
   */
  async settle(payment: JournalledPayment): Promise<SettlementResult> {
    const { facilitators, evidence, logger } = this.#parts;
    const request = facilitatorRequest(payment);
    const asked: string[] = [];
    for (let name = payment.facilitator; ; ) {
      const result = await this.#settleAt(payment, request, name);
      if (result.found.kind === "paid") for (const other of asked) facilitators.noteSettlement(other, false);
      if (name === undefined || !isUnused(result.found)) return result;
      asked.push(name);
      const next = facilitators.next(request, asked);
      if (next === undefined) return result;
      await sleep(evidence.secondLookAfterMs);
      const again = await evidence.look(payment);
      if (!isUnused(again)) return { ...result, found: again };
      logger.warn(
        { ...logFields(payment), facilitator: name, next },
        "not settled: asking the next facilitator",
      );
      name = next;
    }
  }

  /**
   * Requests settlement from the same facilitator again, for a payment whose chain cannot be queried. A second settlement
   * cannot move money twice, because the token accepts a nonce once.
   */
  settleAgain(payment: JournalledPayment): Promise<SettlementResult> {
    return this.#settleAt(payment, facilitatorRequest(payment), payment.facilitator);
  }

  async #settleAt(
    payment: JournalledPayment,
    request: FacilitatorRequest,
    name: string | undefined,
  ): Promise<SettlementResult> {
    const answer = await this.#ask(payment, request, name);
    faultPoint("after-settle");
    if (answer.kind === "paid") return { found: answer };
    const found = await this.#conclude(payment, answer);
    if (name !== undefined && answer.kind === "success") {
      this.#parts.facilitators.noteSettlement(name, found.kind === "paid");
    }
    const { extensionResponses } = answer;
    return { found, isRefused: answer.kind === "refused", extensionResponses };
  }

  /**
   * Requests settlement and polls the chain until the facilitator answers, because some facilitators answer seconds after
   * the transaction is mined. Before the answer, only evidence of payment is final.
   */
  async #ask(
    payment: JournalledPayment,
    request: FacilitatorRequest,
    name: string | undefined,
  ): Promise<SettlementAnswer | PaidEvidence> {
    const { evidence, facilitators } = this.#parts;
    const asked = facilitators.settle(request, name);
    if (!evidence.covers(payment.key)) return asked;
    let isAnswered = false;
    const answered = asked.finally(() => {
      isAnswered = true;
    });
    return (await Promise.race([answered, this.#awaitProof(payment, () => isAnswered)])) ?? asked;
  }

  /** Returns the chain's proof of payment; undefined if the facilitator answered before there was a proof. */
  async #awaitProof(
    payment: JournalledPayment,
    isAnswered: () => boolean,
  ): Promise<PaidEvidence | undefined> {
    const { evidence, pendingLookMs } = this.#parts;
    for (let delayMs = pendingLookMs; ; delayMs *= PENDING_LOOK_FACTOR) {
      // The answer does not cancel the sleep, because aborting a sleep costs more than a timer without effect.
      await sleep(delayMs, undefined, { ref: false });
      if (isAnswered()) return undefined;
      const found = await evidence.look(payment);
      if (found.kind === "paid") return found;
    }
  }

  /**
   * Decides from the facilitator's answer and from the chain, if it can be read. If the runner names the charge, the
   * facilitator alone chooses the amount that it moves, up to the signed ceiling. So the chain is read for that amount even
   * if the facilitator's answer suffices.
   */
  async #conclude(payment: JournalledPayment, answer: SettlementAnswer): Promise<Evidence> {
    const { evidence, logger } = this.#parts;
    const success = believableSuccess(payment, answer, {
      isTransaction: (of, text) => evidence.isTransaction(of, text),
    });
    const word = this.#wordOf(payment, answer, success);
    const mayDifferInAmount = isPartial(payment.charge) && evidence.covers(payment.key);
    if (word !== undefined && !mayDifferInAmount) return word;
    logger.debug(
      { ...logFields(payment), answer },
      "the facilitator's answer is not enough: the chain decides",
    );
    if (!evidence.covers(payment.key)) return { kind: "open", reason: answer.kind };
    const found =
      success === undefined
        ? await evidence.look(payment)
        : await this.#awaitConfirmation(payment, success.transaction);
    const isUnread = found.kind === "unknown" || (found.kind === "open" && found.isUnread === true);
    if (word !== undefined && isUnread) return word;
    if (found.kind !== "open" || found.isAlmostNotPaid !== true) return found;
    await sleep(evidence.secondLookAfterMs);
    return evidence.look(payment, success?.transaction);
  }

  /** Returns the facilitator's success if it suffices; undefined if the chain must confirm it. */
  #wordOf(
    payment: JournalledPayment,
    answer: SettlementAnswer,
    success: SettleResponse | undefined,
  ): PaidEvidence | undefined {
    if (success === undefined || this.#parts.evidence.isRequired(payment.key)) return undefined;
    const { blockNumber } = answer.kind === "success" ? answer : {};
    return {
      kind: "paid",
      transaction: success.transaction,
      blockNumber,
    };
  }

  /**
   * Polls the chain, because the facilitator answers when the transaction is mined, and this RPC may show it a little later.
   */
  async #awaitConfirmation(payment: JournalledPayment, transaction: string): Promise<Evidence> {
    const { evidence, elapsed, confirmationTimeoutMs } = this.#parts;
    const deadline = elapsed() + confirmationTimeoutMs;
    for (;;) {
      const found = await evidence.look(payment, transaction);
      const isOpen = found.kind === "open" && found.isAlmostNotPaid !== true;
      if (!isOpen || elapsed() >= deadline) return found;
      await sleep(CONFIRMATION_POLL_MS);
    }
  }
}

/** Returns true if the chain shows that the authorization can still pay. */
export function isUnused(evidence: Evidence): boolean {
  return evidence.kind === "open" && evidence.isUnused === true;
}

interface Parts {
  readonly journal: Pick<PaymentJournal, "isShared">;
  /** Wall clock, on which authorizations expire. */
  readonly clock: Clock;
  /** Measures durations. */
  readonly elapsed: Clock;
}

/** Shortest time between two requests to settle one payment. */
const ASK_AGAIN_MS = 5_000;
/** Time that an authorization needs to be settled and mined. */
const MIN_LEFT_MS = 6_000;
/**
 * Number of payments whose last request is remembered, which is more than begin in 5 s. A forgotten payment may be requested
 * early.
 */
const MAX_ASKED = 4_000;

/** Times of this process's last settlement request for each payment. */
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
   * Returns true if enough time has passed to request settlement of a payment again. A replica that begins a payment
   * requests settlement at once. So other replicas, and the same replica after a restart, treat the beginning as the last
   * request.
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
