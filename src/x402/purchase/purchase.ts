import { createHash } from "node:crypto";
import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { PaymentIntent, PaymentKey, PaymentRecord } from "../../core/payment.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { UndecidedLimits } from "../../store/contract/payment-journal.ts";
import type { Store } from "../../store/store.ts";
import type { AuthorizedCaller, CallerAuth } from "../callers/caller-auth.ts";
import type { ConfirmedPrice, Price, PriceBook } from "../prices/price-book.ts";
import type { X402Producer } from "../producer.ts";
import type { ChainEvidence } from "../settlement/chain-evidence.ts";
import type { Facilitator, FacilitatorRequest } from "../settlement/facilitator.ts";
import { outcomeOfKnown, type PaymentOutcome, queueFull } from "../settlement/payment-outcome.ts";
import type { PaymentsInProgress } from "../settlement/payments-in-progress.ts";
import type { Settlement } from "../settlement/settlement.ts";
import type { X402Stats } from "../stats.ts";
import { type Offer, toRequirements, toRequirementsV1 } from "../wire/offer.ts";
import { jobUrl, requireNoQuery } from "../wire/paths.ts";
import { readPayment, type SignedPayment } from "../wire/payment-header.ts";
import { PaymentRefusal } from "../wire/payment-required.ts";
import type { ClientLimits } from "./client-limits.ts";
import { type AcceptedPayment, settlementRefusal } from "./payment-answer.ts";

interface Parts {
  readonly prices: PriceBook;
  readonly callerAuth: CallerAuth;
  readonly store: Store;
  readonly facilitator: Facilitator;
  readonly evidence: ChainEvidence;
  readonly settlement: Settlement;
  readonly inProgress: PaymentsInProgress;
  readonly producer: X402Producer;
  readonly limits: ClientLimits;
  readonly stats: X402Stats;
  readonly maxBodyBytes: number;
  readonly publicUrl: string;
  readonly undecidedLimits: UndecidedLimits;
}

/** A request that carries a payment. */
interface PaidRequest {
  readonly request: HttpRequest;
  readonly price: Price;
  readonly body: Uint8Array;
  readonly payment: SignedPayment;
  /** Tells this purchase from every other: the same payment may not buy another job or body. */
  readonly identity: Pick<PaymentIntent, "serviceId" | "jobIndex" | "bodyHash" | "fingerprint">;
}

/** A payment that the facilitator verified. */
interface VerifiedPayment {
  readonly offer: Offer;
  readonly requirements: FacilitatorRequest["requirements"];
  /** Block of the token's chain to look for the settlement from; undefined when the chain cannot be asked. */
  readonly fromBlock: bigint | undefined;
}

/** Buys runs of jobs. Every refusal comes before any money moves; the first that applies is the answer. */
export class Purchase {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Buys one run of a job. The comments name the refusals of each step, in the order that clients rely on; those from
   * the payment on are in {@link Purchase.#payOnce}.
   * @throws GatewayError for every refusal; a 402 is a {@link PaymentRefusal}
   */
  async buy(request: HttpRequest, job: JobKey): Promise<AcceptedPayment> {
    const { prices, limits, inProgress, stats, maxBodyBytes } = this.#parts;
    // query_not_allowed
    requireNoQuery(request);
    // job_not_found, x402_disabled, price_unavailable; quote_not_found, quote_mismatch
    const price = await prices.find(request, job);
    // body_too_large
    const body = await request.readBody(maxBodyBytes);
    try {
      // invalid_payment
      const payment = readPayment(request);
      if (payment === undefined) {
        // rate_limited, payment_required
        await limits.countUnpaid(request);
        throw paymentRequired();
      }
      const { serviceId, jobIndex } = job;
      const { fingerprint, x402Version } = payment;
      const bodyHash = createHash("sha256").update(body).digest("hex");
      const identity = { serviceId, jobIndex, bodyHash, fingerprint };
      // payment_replay
      const outcome = await inProgress.join(identity, () =>
        this.#payOnce({ request, price, body, payment, identity }),
      );
      if (outcome.replayed) stats.count("payment_replayed");
      else if (outcome.kind === "accepted") stats.count("accepted");
      // settlement_failed, settlement_unknown
      if (outcome.kind !== "accepted") throw settlementRefusal(outcome, x402Version);
      return { ...outcome, x402Version };
    } catch (error) {
      if (!(error instanceof GatewayError) || error.status !== 402) throw error;
      throw new PaymentRefusal(error, await freshOffers(price, body, error));
    }
  }

  /** Pays, unless this very payment was seen before: then its first outcome counts. Continues {@link Purchase.buy}. */
  async #payOnce(paid: PaidRequest): Promise<PaymentOutcome> {
    const { callerAuth, settlement, producer } = this.#parts;
    const { request, price, body, payment, identity } = paid;
    const { restriction } = price.policy;
    // store_unavailable
    const known = await this.#findKnown(identity.fingerprint);
    // payment_replay
    if (known !== undefined) return { ...outcomeOfKnown(known, identity), replayed: true };
    // payment_mismatch; quote_not_found, quote_mismatch, quote_conflict
    const offer = await price.match(payment, body);
    // missing_*, invalid_*, signature_mismatch, signature_expired, signature_replay, caller_not_permitted, permission_check_failed
    const caller =
      restriction &&
      (await callerAuth.authorize(price.policy, restriction, { request, body, payer: payment.from }));
    // store_unavailable, queue_full
    this.#checkRoom();
    // rate_limited, authorization_used, payment_invalid, facilitator_unavailable
    const verified = await this.#verify(payment, offer, request).catch(async (error: unknown) => {
      // The same payment may have been settled meanwhile by another replica: then its outcome counts.
      const settledMeanwhile = await this.#findJournalled(identity.fingerprint, paymentKey(payment, offer));
      if (settledMeanwhile === undefined) throw error;
      return settledMeanwhile;
    });
    if ("state" in verified) return { ...outcomeOfKnown(verified, identity), replayed: true };
    // quote_not_found, if the quote has expired since
    const confirmed = await price.confirm(offer);
    const call = producer.jobCall({
      offer,
      body,
      quoteDigest: confirmed.quoteDigest,
      ...(caller === undefined ? {} : { caller: caller.caller }),
    });
    // signature_replay, payment_replay, quote_conflict, too_many_undecided, too_many_open_payments, queue_full, store_unavailable
    return settlement.settle(toIntent(paid, verified, confirmed, caller), call, {
      requestId: request.id,
      limits: this.#parts.undecidedLimits,
    });
  }

  /**
   * Checks that a payment answers an offer and that the facilitator verifies it. Moves no money.
   * @throws GatewayError for every refusal
   */
  async checkPayment({ request, price, body, payment }: Omit<PaidRequest, "identity">): Promise<void> {
    await this.#verify(payment, await price.match(payment, body), request);
  }

  /** Finds the payment of an earlier request. As long as that fails, this may be the resend of a charged payment. */
  async #findKnown(fingerprint: string): Promise<PaymentRecord | undefined> {
    try {
      return await this.#parts.store.findPaymentByFingerprint(fingerprint);
    } catch (cause) {
      if (!(cause instanceof GatewayError)) throw cause;
      throw new GatewayError(
        "store_unavailable",
        "The store cannot be asked now whether this payment was sent before. This request charged nothing: send the very same one again.",
        { cause, details: { charged: "unknown" }, headers: { "retry-after": "5" } },
      );
    }
  }

  async #findJournalled(fingerprint: string, key: PaymentKey): Promise<PaymentRecord | undefined> {
    return (await this.#findKnown(fingerprint)) ?? (await this.#parts.store.findPayment(key));
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

  async #verify(payment: SignedPayment, offer: Offer, request: HttpRequest): Promise<VerifiedPayment> {
    const { limits, publicUrl } = this.#parts;
    const requirementsV1 =
      payment.x402Version === 1 ? toRequirementsV1(offer, jobUrl(publicUrl, offer.job)) : undefined;
    const requirements = requirementsV1 ?? toRequirements(offer);
    const fromBlock = await limits.whileVerifying(request, async () => {
      const verification = this.#askFacilitator(payment, requirements);
      // The chain's word comes first: a facilitator refuses a used authorization too, but cannot say that it was charged.
      verification.catch(() => undefined);
      const [startBlock] = await Promise.all([this.#startBlock(offer), this.#requireUnused(payment, offer)]);
      await verification;
      return startBlock;
    });
    return { offer, requirements, fromBlock };
  }

  /** @throws GatewayError `authorization_used` when the chain shows that; not when it cannot be asked */
  async #requireUnused(payment: SignedPayment, offer: Offer): Promise<void> {
    const { evidence } = this.#parts;
    const { fingerprint, payload, validBefore } = payment;
    const use = await evidence
      .findEarlierUse({
        key: paymentKey(payment, offer),
        fingerprint,
        payload: JSON.stringify(payload),
        validBefore: storableSeconds(validBefore),
      })
      // The settlement is then looked for as far back as the authorization can have been used.
      .catch(() => undefined);
    if (use === undefined) return;
    throw new GatewayError(
      "authorization_used",
      "The chain shows that this authorization was used before: sign a new one. It may have paid for something else.",
      { details: { charged: "unknown", ...use } },
    );
  }

  async #askFacilitator(
    { payload, from }: SignedPayment,
    requirements: FacilitatorRequest["requirements"],
  ): Promise<void> {
    const verification = await this.#parts.facilitator.verify({ payload, requirements });
    if (verification.kind === "invalid") {
      throw new GatewayError(
        "payment_invalid",
        `The facilitator refused the payment: ${verification.reason}.`,
      );
    }
    if (verification.payer !== undefined && verification.payer.toLowerCase() !== from) {
      throw new GatewayError("payment_invalid", "The facilitator names another payer than the payment does.");
    }
  }

  /** Returns the head of the token's chain. If the chain has to confirm the settlement, it must be reachable now. */
  async #startBlock({ token }: Offer): Promise<bigint | undefined> {
    const { evidence } = this.#parts;
    if (!evidence.covers(token)) return undefined;
    try {
      return await evidence.startBlock(token);
    } catch (cause) {
      if (!evidence.isRequired(token)) return undefined;
      throw new GatewayError(
        "facilitator_unavailable",
        "The payment's chain cannot be asked now, so a settlement could not be confirmed. Nothing was charged: try again.",
        { cause, headers: { "retry-after": "2" } },
      );
    }
  }
}

function paymentRequired(): GatewayError {
  return new GatewayError(
    "payment_required",
    "This job must be paid for: sign one of the offers and send the request again.",
  );
}

/** Returns the offers to show with a refusal. A failed settlement is reported even when nothing can be offered now. */
async function freshOffers(price: Price, body: Uint8Array, refusal: GatewayError): Promise<readonly Offer[]> {
  try {
    return await price.offers(body);
  } catch (error) {
    if (refusal.code === "settlement_failed") return [];
    throw error;
  }
}

function toIntent(
  { payment, identity }: PaidRequest,
  { offer, requirements, fromBlock }: VerifiedPayment,
  { quoteDigest, redeemsQuote }: ConfirmedPrice,
  caller: AuthorizedCaller | undefined,
): PaymentIntent {
  const { token, amount, priceWei } = offer;
  return {
    ...identity,
    key: paymentKey(payment, offer),
    x402Version: payment.x402Version,
    payload: JSON.stringify(payment.payload),
    requirements: JSON.stringify(requirements),
    transferMethod: token.transferMethod,
    payTo: token.payTo.toLowerCase(),
    amount,
    symbol: token.symbol,
    priceWei: priceWei.toString(),
    validBefore: storableSeconds(payment.validBefore),
    receipt: quoteDigest,
    ...(redeemsQuote ? { redeemsQuote } : {}),
    ...(fromBlock === undefined ? {} : { fromBlock: fromBlock.toString() }),
    ...(caller?.nonce === undefined ? {} : { callerNonce: caller.nonce }),
  };
}

function paymentKey({ from, nonce }: SignedPayment, { token }: Offer): PaymentKey {
  return { network: token.network, asset: token.asset.toLowerCase(), payer: from, nonce };
}

/** Bounds a signed value, which may be up to 2^256 - 1, to what the store can hold: 285 million years. */
function storableSeconds(seconds: bigint): number {
  return Math.min(Number(seconds), Number.MAX_SAFE_INTEGER);
}
