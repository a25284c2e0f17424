import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { SignedPayment } from "../methods/method.ts";
import {
  outcomeOfKnown,
  type PaymentOutcome,
  type PurchaseIdentity,
  PurchaseNameTaken,
  refuseOther,
} from "../settlement/payment-outcome.ts";
import type { PaymentsInProgress } from "../settlement/payments-in-progress.ts";
import type { X402Stats } from "../stats.ts";
import type { PurchaseNames } from "../wire/version.ts";
import { Correction, PaymentRefusal } from "./refused-payments.ts";
import { type PaidRequest, PurchaseState, purchaseSteps, type StepParts } from "./steps.ts";
import type { Terms } from "./terms.ts";

interface Parts extends StepParts {
  readonly inProgress: PaymentsInProgress;
  readonly stats: X402Stats;
  readonly terms: readonly Terms[];
  readonly purchaseNames: PurchaseNames | undefined;
}

/** A payment that bought a run of a job, now or in an earlier request. */
export type AcceptedPayment = Extract<PaymentOutcome, { kind: "accepted" }>;

/** Buys runs of jobs. Every refusal comes before any money moves. The first refusal that applies is the answer. */
export class Purchase {
  readonly #parts: Parts;
  readonly #steps: ReturnType<typeof purchaseSteps>;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#steps = purchaseSteps(parts.terms.flatMap(({ checks = [] }) => checks));
  }

  /** Refuses a job that a part has taken off sale. @throws GatewayError */
  requireOpen(job: JobKey): void {
    for (const terms of this.#parts.terms) terms.requireOpen?.(job);
  }

  /** Refuses a request that is answered without a payment. @throws GatewayError */
  requireOpenUnpaid(...sold: Parameters<NonNullable<Terms["requireOpenUnpaid"]>>): void {
    for (const terms of this.#parts.terms) terms.requireOpenUnpaid?.(...sold);
  }

  /** Returns a payment with the fingerprint that the journal uses for it. @throws GatewayError `store_unavailable` */
  async recognise(payment: SignedPayment): Promise<SignedPayment> {
    let recognised = payment;
    for (const terms of this.#parts.terms) recognised = (await terms.recognise?.(recognised)) ?? recognised;
    return recognised;
  }

  /**
   * Buys one run of a job, by {@link purchaseSteps}.
   * @throws GatewayError for every refusal; a 402 is a {@link PaymentRefusal}
   */
  async buy(paid: PaidRequest): Promise<AcceptedPayment> {
    const { inProgress, stats } = this.#parts;
    let outcome: PaymentOutcome | undefined;
    try {
      outcome = await inProgress.join(paid.identity, () => this.#inTurn(paid));
      if (outcome.replayed) stats.count("payment_replayed");
      return requireAccepted(outcome);
    } catch (error) {
      throw await withOffers(this.#named(error), paid, outcome?.kind === "failed" ? outcome : undefined);
    }
  }

  /**
   * Finds the earlier purchase of a request's payment.
   * @returns undefined for an unknown payment
   * @throws GatewayError `payment_replay` or the refusal of the name, `settlement_failed`, `settlement_unknown`
   */
  async findBought({ payment, identityLike }: PaidRequest): Promise<AcceptedPayment | undefined> {
    const known = await this.#parts.earlier.findOwn(payment);
    try {
      return known && requireAccepted(outcomeOfKnown(known, identityLike(known)));
    } catch (error) {
      throw this.#named(error);
    }
  }

  /**
   * Finds the outcome of exactly this payment, for a request that can no longer be compared with the request that the
   * payment bought.
   * @throws GatewayError `settlement_failed`, `settlement_unknown`
   */
  async findOutcome(payment: SignedPayment): Promise<AcceptedPayment | undefined> {
    const known = await this.#parts.earlier.findOwn(payment);
    if (known?.fingerprint !== payment.fingerprint) return undefined;
    return requireAccepted({ ...outcomeOfKnown(known, known), replayed: true });
  }

  /**
   * Finds the earlier purchase of a payment that its method binds to requests, for a request that cannot be bound now.
   * @param isFirst compares the request with the first request of a purchase
   * @throws GatewayError `settlement_failed`, `settlement_unknown`
   */
  async findBound(
    payment: SignedPayment,
    isFirst: (known: PurchaseIdentity) => boolean | Promise<boolean>,
  ): Promise<{ readonly job: JobKey; readonly payment: AcceptedPayment } | undefined> {
    for (const terms of this.#parts.terms)
      for (const { fingerprint } of (await terms.findBound?.(payment)) ?? []) {
        const known = await this.#parts.earlier.findOwn({ ...payment, fingerprint });
        if (known?.fingerprint !== fingerprint || !(await isFirst(known))) continue;
        const { serviceId, jobIndex } = known;
        const accepted = requireAccepted({ ...outcomeOfKnown(known, known), replayed: true });
        return { job: { serviceId, jobIndex }, payment: accepted };
      }
    return undefined;
  }

  /**
   * Refuses a known payment in a message that makes no request, and so not the request that the payment bought.
   * @throws GatewayError `payment_replay` or the refusal of the name
   */
  async refuseKnown(payment: SignedPayment): Promise<void> {
    const { fingerprint, purchaseName, from: payer } = payment;
    const known = await this.findEarlier(payment);
    if (known === undefined) return;
    try {
      refuseOther(known, { fingerprint, purchaseName, key: { payer } });
    } catch (error) {
      throw this.#named(error);
    }
  }

  /** Finds the purchase for which a payment is or was used. @throws GatewayError `store_unavailable` */
  async findEarlier(payment: SignedPayment): Promise<PurchaseIdentity | undefined> {
    const { inProgress, earlier } = this.#parts;
    return inProgress.find(payment.fingerprint) ?? (await earlier.findOwn(payment));
  }

  /** Returns the refusal of a taken name in the words of the part that reads names. */
  #named(error: unknown): unknown {
    return error instanceof PurchaseNameTaken
      ? (this.#parts.purchaseNames?.taken(error.what) ?? error)
      : error;
  }

  /** Allows one payment at a time under a name. */
  #inTurn(paid: PaidRequest): Promise<PaymentOutcome> {
    const { inProgress, earlier } = this.#parts;
    const { payment } = paid;
    const { purchaseName: name, from: payer } = payment;
    if (name === undefined) return this.#payOnce(paid);
    const isSigned = () => earlier.isSignedByPayer(payment);
    return inProgress.inTurn({ payer, name }, isSigned, () => this.#payOnce(paid));
  }

  /** Continues {@link Purchase.buy}. */
  async #payOnce(paid: PaidRequest): Promise<PaymentOutcome> {
    const state = new PurchaseState(paid);
    try {
      for (const step of this.#steps) {
        const outcome = await step.run(state, this.#parts);
        if (outcome !== undefined) return outcome;
      }
    } finally {
      for (const contribution of state.contributions.toReversed()) contribution.leave?.();
    }
    throw new Error("the last step of a purchase has an outcome");
  }
}

/** @throws GatewayError `settlement_failed`, `settlement_unknown`: the payment was not settled, or not yet */
function requireAccepted(outcome: PaymentOutcome): AcceptedPayment {
  switch (outcome.kind) {
    case "accepted":
      return outcome;
    case "failed": {
      const { transaction, errorMessage } = outcome.settlement;
      // The authorization paid for something else.
      if (transaction !== "")
        throw new GatewayError(
          "settlement_failed",
          `The payment was not settled for this job: ${errorMessage}. Sign a new one.`,
          { details: { charged: "unknown", transaction } },
        );
      throw new GatewayError(
        "settlement_failed",
        "The payment was not settled, and this job was not charged: sign a new one.",
      );
    }
    case "undecided":
      throw new GatewayError(
        "settlement_unknown",
        "It is not known yet whether the payment was settled. Send the same request again: if it was, the job will run once.",
        { details: { charged: "unknown" }, headers: { "retry-after": "2" } },
      );
  }
}

/**
 * Adds the current offers to a 402; returns other errors as they are. A failed settlement is reported even when nothing
 * can be offered now.
 */
export async function withOffers(
  error: unknown,
  { findPrice, body, requestHash }: Pick<PaidRequest, "findPrice" | "body" | "requestHash">,
  settled?: PaymentRefusal["settled"],
): Promise<unknown> {
  if (!(error instanceof GatewayError) || error.status !== 402) return error;
  const offers = findPrice().then((price) => price.offers(body));
  const shown = error.code === "settlement_failed" ? offers.catch(() => []) : offers;
  const all = error instanceof Correction ? (await shown).map(error.correct) : await shown;
  return new PaymentRefusal(error, all, { body, requestHash, settled });
}
