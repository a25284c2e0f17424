import type { Clock } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import type { HttpRequest } from "../http/http-request.ts";
import type { PaymentIntent } from "../payment.ts";
import { quoteDigest } from "../pricing/quote-digest.ts";
import type { Store } from "../store/store.ts";
import type { ChainEvidence } from "./chain-evidence.ts";
import type { ClientLimits } from "./client-limits.ts";
import type { Facilitator, FacilitatorRequest } from "./facilitator.ts";
import type { PurchasableJob } from "./job-catalog.ts";
import { type Offer, toRequirements, toRequirementsV1 } from "./offer.ts";
import type { OfferBook } from "./offer-book.ts";
import type { OfferTime } from "./offer-time.ts";
import { matchOffer } from "./payment-check.ts";
import type { SignedPayment } from "./payment-header.ts";
import { outcomeOfKnown, type PaymentOutcome, queueFull } from "./payment-outcome.ts";
import type { Settlement } from "./settlement.ts";
import type { X402Producer } from "./x402-producer.ts";

export interface PurchasingOptions {
  readonly offers: OfferBook;
  readonly store: Store;
  readonly facilitator: Facilitator;
  readonly evidence: ChainEvidence;
  readonly settlement: Settlement;
  readonly producer: X402Producer;
  readonly limits: ClientLimits;
  readonly offerTime: OfferTime;
  readonly clock: Clock;
  /** Absolute URL of a job, as clients are told. */
  readonly resourceOf: (job: PurchasableJob) => string;
}

/** A request that carries a payment. */
export interface PaidRequest {
  readonly job: PurchasableJob;
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
}

export function createPurchasing(options: PurchasingOptions): Purchasing {
  const { offers, store, facilitator, evidence, settlement, producer, limits, offerTime, clock } = options;

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

  function requirementsFor({ job, payment }: PaidRequest, offer: Offer): FacilitatorRequest["requirements"] {
    const v1 = payment.x402Version === 1 ? toRequirementsV1(offer, options.resourceOf(job)) : undefined;
    return v1 ?? toRequirements(offer);
  }

  async function verify({ from }: SignedPayment, request: FacilitatorRequest): Promise<void> {
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

  return {
    async buy(paid) {
      const { job, body, bodyHash, payment, request } = paid;
      const { fingerprint } = payment;
      const known = await store.findPaymentByFingerprint(fingerprint);
      if (known !== undefined)
        return { ...outcomeOfKnown(known, { ...job, bodyHash, fingerprint }), replayed: true };

      const offer = await matchOffer(payment, offers.payable(job), clock());
      checkRoom();
      const requirements = requirementsFor(paid, offer);
      const [fromBlock] = await limits.whileVerifying(request.remoteAddress, () =>
        Promise.all([startBlock(offer), verify(payment, { payload: payment.payload, requirements })]),
      );

      const receipt = quoteDigest(job, offer.priceWei, offerTime());
      const intent = toIntent(paid, offer, requirements, receipt, fromBlock);
      return settlement.settle(intent, producer.jobCall({ offer, body, receipt }));
    },
  };
}

function toIntent(
  { job, payment, bodyHash }: PaidRequest,
  { token, amount, priceWei }: Offer,
  requirements: FacilitatorRequest["requirements"],
  receipt: string,
  fromBlock: bigint | undefined,
): PaymentIntent {
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
    validBefore: Number(payment.validBefore),
    receipt,
    ...(fromBlock === undefined ? {} : { fromBlock: fromBlock.toString() }),
  };
}
