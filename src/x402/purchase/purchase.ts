import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { CallerNonce, PaymentIntent, PaymentRecord } from "../../core/payment.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { Store } from "../../store/store.ts";
import type { CallerAuth } from "../callers/caller-auth.ts";
import type { PurchasableJob } from "../prices/job-catalog.ts";
import type { PriceTag, Receipt } from "../prices/price-tag.ts";
import type { X402Producer } from "../producer.ts";
import type { ChainEvidence } from "../settlement/chain-evidence.ts";
import type { Facilitator, FacilitatorRequest } from "../settlement/facilitator.ts";
import { outcomeOfKnown, type PaymentOutcome, queueFull } from "../settlement/payment-outcome.ts";
import type { Settlement } from "../settlement/settlement.ts";
import { type Offer, toRequirements, toRequirementsV1 } from "../wire/offer.ts";
import type { SignedPayment } from "../wire/payment-header.ts";
import type { ClientLimits } from "./client-limits.ts";

export interface PurchasingOptions {
  readonly store: Store;
  readonly facilitator: Facilitator;
  readonly evidence: ChainEvidence;
  readonly settlement: Settlement;
  readonly callerAuth: CallerAuth;
  readonly producer: X402Producer;
  readonly limits: ClientLimits;
  /** Absolute URL of a job, as clients are told. */
  readonly resourceOf: (job: JobKey) => string;
}

/** A request that carries a payment. */
export interface PaidRequest {
  readonly job: PurchasableJob;
  readonly priceTag: PriceTag;
  readonly body: Uint8Array;
  /** SHA-256 of the body, hex. */
  readonly bodyHash: string;
  readonly payment: SignedPayment;
  readonly request: HttpRequest;
}

export interface Purchasing {
  /**
   * From a payment to its job: everything that can refuse the request first, the money after that.
   * @throws GatewayError for every refusal; nothing was charged then
   */
  buy(paid: PaidRequest): Promise<PaymentOutcome>;
  /**
   * Whether a payment would be good for a price: it answers an offer, and the facilitator verifies it. Moves nothing.
   * @returns the offer that it answers, and what the facilitator is asked
   * @throws GatewayError for every refusal
   */
  verify(priceTag: PriceTag, payment: SignedPayment, request: HttpRequest): Promise<VerifiedPayment>;
}

export interface VerifiedPayment {
  readonly offer: Offer;
  readonly requirements: FacilitatorRequest["requirements"];
  readonly fromBlock: bigint | undefined;
}

export function createPurchasing(options: PurchasingOptions): Purchasing {
  const { store, facilitator, evidence, settlement, callerAuth, producer, limits } = options;

  function checkRoom(): void {
    const status = store.status();
    if (!status.writable) {
      throw new GatewayError(
        "store_unavailable",
        "The store takes no jobs now. Nothing was charged: try again.",
        {
          headers: { "retry-after": "5" },
        },
      );
    }
    if (status.full) throw queueFull();
  }

  /** Until it is found out, this may be the resend of a payment that was charged for. */
  async function findKnown(fingerprint: string): Promise<PaymentRecord | undefined> {
    try {
      return await store.findPaymentByFingerprint(fingerprint);
    } catch (cause) {
      if (!(cause instanceof GatewayError)) throw cause;
      throw new GatewayError(
        "store_unavailable",
        "The store cannot be asked now whether this payment was sent before. This request charged nothing: send the very same one again.",
        { cause, details: { charged: "unknown" }, headers: { "retry-after": "5" } },
      );
    }
  }

  function requirementsFor(payment: SignedPayment, offer: Offer): FacilitatorRequest["requirements"] {
    const v1 = payment.x402Version === 1 ? toRequirementsV1(offer, options.resourceOf(offer.job)) : undefined;
    return v1 ?? toRequirements(offer);
  }

  async function askFacilitator({ from }: SignedPayment, request: FacilitatorRequest): Promise<void> {
    const verification = await facilitator.verify(request);
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

  /** Where on the chain to look for the settlement. A chain that must confirm it has to be there to do so. */
  async function startBlock({ token }: Offer): Promise<bigint | undefined> {
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

  async function verify(
    payment: SignedPayment,
    offer: Offer,
    request: HttpRequest,
  ): Promise<VerifiedPayment> {
    const requirements = requirementsFor(payment, offer);
    const [fromBlock] = await limits.whileVerifying(request.remoteAddress, () =>
      Promise.all([startBlock(offer), askFacilitator(payment, { payload: payment.payload, requirements })]),
    );
    return { offer, requirements, fromBlock };
  }

  return {
    async verify(priceTag, payment, request) {
      return verify(payment, await priceTag.answeredBy(payment), request);
    },

    async buy(paid) {
      const { job, priceTag, body, bodyHash, payment, request } = paid;
      const { fingerprint } = payment;
      const known = await findKnown(fingerprint);
      if (known !== undefined)
        return { ...outcomeOfKnown(known, { ...job, bodyHash, fingerprint }), replayed: true };

      const offer = await priceTag.answeredBy(payment);
      const { restriction } = job.policy;
      const authorized =
        restriction && (await callerAuth.authorize(job, restriction, { request, body, payer: payment.from }));
      checkRoom();
      const verified = await verify(payment, offer, request);
      await priceTag.checkOpen();

      const receipt = priceTag.receiptOf(offer);
      const intent = toIntent(paid, verified, receipt, authorized?.nonce);
      const call = producer.jobCall({
        offer,
        body,
        quoteDigest: receipt.quoteDigest,
        ...(authorized === undefined ? {} : { caller: authorized.caller }),
      });
      return settlement.settle(intent, call, request.id);
    },
  };
}

function toIntent(
  { job, payment, bodyHash }: PaidRequest,
  { offer, requirements, fromBlock }: VerifiedPayment,
  { receipt, spareReceipt }: Receipt,
  callerNonce: CallerNonce | undefined,
): PaymentIntent {
  const { token, amount, priceWei } = offer;
  return {
    key: {
      network: token.network,
      asset: token.asset.toLowerCase(),
      payer: payment.from,
      nonce: payment.nonce,
    },
    serviceId: job.serviceId,
    jobIndex: job.jobIndex,
    fingerprint: payment.fingerprint,
    bodyHash,
    x402Version: payment.x402Version,
    payload: JSON.stringify(payment.payload),
    requirements: JSON.stringify(requirements),
    transferMethod: token.transferMethod,
    payTo: token.payTo.toLowerCase(),
    amount,
    symbol: token.symbol,
    priceWei: priceWei.toString(),
    // As signed it may be up to 2^256 - 1, at which the store's write would fail: this is 285 million years.
    validBefore: Math.min(Number(payment.validBefore), Number.MAX_SAFE_INTEGER),
    receipt,
    ...(spareReceipt === undefined ? {} : { spareReceipt }),
    ...(fromBlock === undefined ? {} : { fromBlock: fromBlock.toString() }),
    ...(callerNonce === undefined ? {} : { callerNonce }),
  };
}
