import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { PaymentIntent, PaymentRecord } from "../../core/payment.ts";
import { priceText } from "../../core/price.ts";
import type { JobRequest } from "../../http/request.ts";
import type { UndecidedLimits } from "../../store/contract/payment-journal.ts";
import type { Store } from "../../store/store.ts";
import type { AuthorizedCaller, CallerAuth } from "../callers/caller-auth.ts";
import type { JobRoutes } from "../jobs/job-routes.ts";
import type { SignedPayment } from "../methods/method.ts";
import type { ConfirmedPrice, Price } from "../prices/price.ts";
import type { X402Producer } from "../producer.ts";
import {
  outcomeOfKnown,
  type PaymentOutcome,
  type PurchaseIdentity,
  queueFull,
} from "../settlement/payment-outcome.ts";
import type { PaymentsInProgress } from "../settlement/payments-in-progress.ts";
import type { Settlement } from "../settlement/settlement.ts";
import type { X402Stats } from "../stats.ts";
import type { IdentifierRule } from "../wire/payment-identifier.ts";
import { PaymentRefusal } from "../wire/payment-required.ts";
import type { AdoptedPayments } from "./adopted-payments.ts";
import type { ClientLimits } from "./client-limits.ts";
import type { EarlierPayments } from "./earlier-payments.ts";
import type { ExtensionEchoes } from "./extension-echoes.ts";
import { passGates, type SaleGate } from "./sale-gate.ts";
import { paymentKey, storableSeconds, type Verification, type VerifiedPayment } from "./verification.ts";

interface Parts {
  readonly callerAuth: CallerAuth;
  readonly store: Pick<Store, "status">;
  readonly earlier: EarlierPayments;
  readonly adopted: AdoptedPayments;
  readonly verification: Verification;
  readonly settlement: Settlement;
  readonly inProgress: PaymentsInProgress;
  readonly identifiers: IdentifierRule;
  readonly producer: X402Producer;
  readonly routes: JobRoutes;
  readonly stats: X402Stats;
  readonly echoes: ExtensionEchoes;
  readonly undecidedLimits: UndecidedLimits;
  readonly gates: readonly SaleGate[];
  readonly limits: Pick<ClientLimits, "clientOf">;
}

/** A payment that bought a run of a job, now or in an earlier request. */
export type AcceptedPayment = Extract<PaymentOutcome, { kind: "accepted" }>;

/** A request that carries a payment and a body, both as they can be read. */
export interface PaidRequest {
  readonly request: JobRequest;
  readonly payment: SignedPayment;
  readonly body: Uint8Array;
  /** Hash of the whole request, at a job's own route. */
  readonly requestHash: string | undefined;
  /** Distinguishes this purchase from all others: the same payment may not buy another job, body or callback. */
  readonly identity: PurchaseIdentity;
  /** Returns the identity over the headers that a known payment is bound to: the configuration may have changed since. */
  readonly identityLike: (known: PurchaseIdentity) => PurchaseIdentity;
  /** Finds the price, once. @throws GatewayError */
  readonly findPrice: () => Promise<Price>;
  /** Checks the body by the current configuration. @throws GatewayError */
  readonly checkInput: () => Promise<void>;
}

/** Buys runs of jobs. Every refusal comes before any money moves; the first that applies is the answer. */
export class Purchase {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Refuses a job that a part has taken off sale. @throws GatewayError */
  requireOpen(job: JobKey): void {
    for (const gate of this.#parts.gates) gate.requireOpen(job);
  }

  /**
   * Buys one run of a job. The comments name the refusals of each step, in the order that clients rely on; it continues
   * in {@link Purchase.#payOnce}.
   * @throws GatewayError for every refusal; a 402 is a {@link PaymentRefusal}
   */
  async buy(paid: PaidRequest): Promise<AcceptedPayment> {
    const { inProgress, stats } = this.#parts;
    let outcome: PaymentOutcome | undefined;
    try {
      // payment_replay
      outcome = await inProgress.join(paid.identity, () => this.#inTurn(paid));
      if (outcome.replayed) stats.count("payment_replayed");
      return requireAccepted(outcome);
    } catch (error) {
      throw await withOffers(error, paid, outcome?.kind === "failed" ? outcome : undefined);
    }
  }

  /**
   * Finds what the payment of a request bought before.
   * @returns undefined for a payment that was not seen before
   * @throws GatewayError `payment_replay`, `payment_identifier_conflict`, `settlement_failed`, `settlement_unknown`
   */
  async findBought({ payment, identityLike }: PaidRequest): Promise<AcceptedPayment | undefined> {
    const known = await this.#parts.earlier.findOwn(payment);
    return known && requireAccepted(outcomeOfKnown(known, identityLike(known)));
  }

  /**
   * Finds the outcome of this very payment, for a request that can no longer be compared with the one that it bought.
   * @throws GatewayError `settlement_failed`, `settlement_unknown`
   */
  async findOutcome(payment: SignedPayment): Promise<AcceptedPayment | undefined> {
    const known = await this.#parts.earlier.findOwn(payment);
    if (known?.fingerprint !== payment.fingerprint) return undefined;
    return requireAccepted({ ...outcomeOfKnown(known, known), replayed: true });
  }

  /** Finds what a payment is being used for, or was. @throws GatewayError `store_unavailable` */
  async findEarlier(payment: SignedPayment): Promise<PurchaseIdentity | undefined> {
    const { inProgress, earlier } = this.#parts;
    return inProgress.find(payment.fingerprint) ?? (await earlier.findOwn(payment));
  }

  /** Allows one payment at a time under an identifier. */
  #inTurn(paid: PaidRequest): Promise<PaymentOutcome> {
    const { inProgress, earlier } = this.#parts;
    const { payment } = paid;
    const { paymentId: id, from: payer } = payment;
    if (id === undefined) return this.#payOnce(paid);
    const isSigned = () => earlier.isSignedByPayer(payment);
    return inProgress.inTurn({ payer, id }, isSigned, () => this.#payOnce(paid));
  }

  /**
   * Pays, unless this very payment was seen before, or another one under its identifier: then the first outcome is the
   * answer. Continues {@link Purchase.buy}.
   */
  async #payOnce(paid: PaidRequest): Promise<PaymentOutcome> {
    const { callerAuth, earlier, adopted, settlement, producer, routes, verification } = this.#parts;
    const { request, body, requestHash, payment, identity } = paid;
    const first = async (record: PaymentRecord) => {
      const outcome = outcomeOfKnown(record, paid.identityLike(record));
      const latest = outcome.kind === "undecided" ? await settlement.retry(record) : outcome;
      return { ...latest, replayed: true as const };
    };
    // store_unavailable
    const known = await earlier.find(payment);
    // payment_replay, payment_identifier_conflict
    if (known !== undefined && (await earlier.isFromPayer(payment, known))) return first(known);
    // not_found, query_not_allowed, job_not_found, api_unreachable, x402_disabled, price_unavailable;
    // quote_not_found, quote_mismatch
    const price = await paid.findPrice().catch(async (error: unknown) => {
      const mayBeAdopted = known === undefined && (await earlier.isSignedByPayer(payment));
      throw mayBeAdopted ? await adopted.explain(error, payment) : error;
    });
    if (known !== undefined) {
      // payment_mismatch, payment_invalid, …: as without the identifier, which does not prove who the payer is
      await verification.verify(payment, await price.match(payment, body), request);
      // payment_identifier_conflict
      return first(known);
    }
    // invalid_input, invalid_callback_url, rate_limited
    await paid.checkInput();
    const { restriction } = price.policy;
    // missing_payment_identifier
    this.#parts.identifiers.check(payment, identity);
    // payment_mismatch
    this.#parts.echoes.check(payment.payload, identity);
    // payment_mismatch
    payment.requireAskedFor?.({ ...identity, body, requestHash });
    // payment_mismatch; quote_not_found, quote_mismatch, quote_conflict
    const matched = await price.match(payment, body).then(
      (offer) => ({ offer }),
      (error: unknown) => adopted.find(error, payment, { price, body }),
    );
    const { offer } = matched;
    // The same purchase may be made meanwhile at another replica: then its outcome counts.
    const findMade = async (error: unknown): Promise<PaymentRecord> => {
      const made = await earlier.find(payment, paymentKey(payment, offer));
      if (made === undefined) throw error;
      if (await earlier.isFromPayer(payment, made)) return made;
      throw made.key.nonce === payment.nonce ? asReplay(error) : error;
    };
    // missing_*, invalid_*, signature_mismatch, signature_expired, signature_replay, caller_not_permitted, permission_check_failed
    const caller =
      restriction &&
      (await callerAuth
        .authorize(price.policy, restriction, { request, body, requestHash, payer: payment.from })
        .catch(findMade));
    if (caller !== undefined && "state" in caller) return first(caller);
    // Looked up while the payment is verified.
    const noLoss = earlier.requireNoLoss(payment, offer);
    noLoss.catch(() => undefined);
    // headers_too_large
    const requestMetadata = [...producer.readHeaders(request, identity), ...routes.metadataOf(request)];
    // store_unavailable, queue_full
    this.#checkRoom();
    const entering = { job: identity, client: this.#parts.limits.clientOf(request), payer: payment.from };
    // rate_limited, api_busy, api_unreachable
    return passGates(this.#parts.gates, entering, async (metadata) => {
      // rate_limited, authorization_used, payment_replay, payment_invalid, facilitator_unavailable, settler_unfunded
      const verified =
        "paidIn" in matched
          ? matched
          : await verification
              .verify(payment, offer, request)
              .catch(findMade)
              .catch((error: unknown) => adopted.find(error, payment, { price, body, offer }));
      if ("state" in verified) return first(verified);
      // payment_invalid
      await noLoss;
      // quote_not_found, if the quote has expired since
      const confirmed = await price.confirm(offer);
      const call = producer.jobCall({
        offer,
        payment,
        body,
        requestMetadata: [...requestMetadata, ...metadata],
        quoteDigest: confirmed.quoteDigest,
        caller: caller?.caller,
      });
      const { funds, fundsReadAt } = verified;
      const { maxUndecided, maxOpenPerPayer } = this.#parts.undecidedLimits;
      // signature_replay, payment_replay, quote_conflict, too_many_undecided, too_many_open_payments, payment_invalid,
      // queue_full, store_full, store_unavailable
      return settlement.settle(toIntent(paid, verified, confirmed, caller), call, {
        requestId: request.id,
        limits: {
          maxUndecided,
          maxOpenPerPayer,
          ...(funds === undefined
            ? {}
            : { funds: funds.toString(), fundsAgeMs: Math.ceil(performance.now() - fundsReadAt) }),
        },
        paidIn: verified.paidIn,
      });
    });
  }

  #checkRoom(): void {
    const { writable, full } = this.#parts.store.status();
    if (!writable) {
      throw new GatewayError(
        "store_unavailable",
        "The store takes no jobs now. Nothing was charged: try again.",
        { headers: { "retry-after": "5" } },
      );
    }
    if (full) throw queueFull();
  }
}

/** The chain shows an authorization as used that is in the journal: it came before, with another signature. */
function asReplay(error: unknown): unknown {
  if (!(error instanceof GatewayError) || error.code !== "authorization_used") return error;
  return new GatewayError(
    "payment_replay",
    "This authorization was sent before, with another signature. Send that very request again for its outcome, or sign a new payment.",
    { details: { charged: "unknown" } },
  );
}

/** @throws GatewayError `settlement_failed`, `settlement_unknown`: the payment was not settled, or not yet */
function requireAccepted(outcome: PaymentOutcome): AcceptedPayment {
  switch (outcome.kind) {
    case "accepted":
      return outcome;
    case "failed": {
      const { transaction, errorMessage } = outcome.settlement;
      // The authorization paid elsewhere.
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
        "It is not known yet whether the payment was settled. Send the very same request again: if it was, the job will run once.",
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
  return new PaymentRefusal(error, await shown, { body, requestHash, settled });
}

function toIntent(
  { payment, identity }: PaidRequest,
  { offer, requirements, fromBlock, facilitator, paidIn }: VerifiedPayment,
  { quoteDigest, redeemsQuote }: ConfirmedPrice,
  caller: AuthorizedCaller | undefined,
): PaymentIntent {
  const { token, amount, rate, priceWei, currency, charge } = offer;
  return {
    ...identity,
    key: paymentKey(payment, offer),
    x402Version: payment.x402Version,
    payload: JSON.stringify(payment.payload),
    requirements: JSON.stringify(requirements),
    facilitator,
    transferMethod: token.transferMethod,
    payTo: token.payTo.toLowerCase(),
    amount,
    symbol: token.symbol,
    price: currency === "USD" ? priceText({ unit: "usd", amount: priceWei }) : priceWei.toString(),
    rate,
    decimals: token.decimals,
    validBefore: storableSeconds(payment.validBefore),
    receipt: quoteDigest,
    redeemsQuote: redeemsQuote || undefined,
    fromBlock: fromBlock?.toString(),
    callerNonce: caller?.nonce,
    onFailure: offer.onFailure,
    // An adopted payment has moved its money.
    charge: (paidIn === undefined ? charge?.kind : undefined) ?? "before",
    minCharge: charge?.minCharge,
  };
}
