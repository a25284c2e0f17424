import { createHash } from "node:crypto";
import type { Logger } from "pino";
import type { Clock } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import type { HttpRequest } from "../http/http-request.ts";
import { errorResponse, type HttpResponse } from "../http/http-response.ts";
import type { JobKey } from "../job-call.ts";
import type { PaymentIntent } from "../payment.ts";
import { quoteDigest } from "../pricing/quote-digest.ts";
import type { Store } from "../store/store.ts";
import type { ChainEvidence } from "./chain-evidence.ts";
import type { Facilitator } from "./facilitator.ts";
import type { JobCatalog, PurchasableJob } from "./job-catalog.ts";
import { type Offer, toRequirements, toRequirementsV1 } from "./offer.ts";
import type { OfferBook } from "./offer-book.ts";
import type { OfferTime } from "./offer-time.ts";
import { paymentAnswer } from "./payment-answer.ts";
import { matchOffer } from "./payment-check.ts";
import { readPayment, type SignedPayment } from "./payment-header.ts";
import { outcomeOfKnown, type PaymentOutcome, queueFull } from "./payment-outcome.ts";
import { paymentRequiredResponse } from "./payment-required.ts";
import type { PaymentsInHand } from "./payments-in-hand.ts";
import type { Settlement } from "./settlement.ts";
import type { X402Stats } from "./stats.ts";
import type { X402Producer } from "./x402-producer.ts";

export interface JobRouteOptions {
  readonly catalog: JobCatalog;
  readonly offers: OfferBook;
  readonly store: Store;
  readonly facilitator: Facilitator;
  readonly evidence: ChainEvidence;
  readonly settlement: Settlement;
  readonly inHand: PaymentsInHand;
  readonly producer: X402Producer;
  readonly offerTime: OfferTime;
  readonly stats: X402Stats;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly maxBodyBytes: number;
  /** Absolute URL of a job, as clients are told. */
  readonly resourceOf: (job: JobKey) => string;
}

/** `POST /x402/jobs/{service}/{job}`: pays for one run of a job. */
export type JobRoute = (request: HttpRequest, job: JobKey) => Promise<HttpResponse>;

interface PaidRequest {
  readonly job: PurchasableJob;
  readonly body: Uint8Array;
  readonly bodyHash: string;
  readonly payment: SignedPayment;
}

export function createJobRoute(options: JobRouteOptions): JobRoute {
  const { catalog, offers, store, facilitator, evidence, settlement, inHand, producer, stats, clock } =
    options;

  /** Every check that can refuse the request, in order, and only then the money. */
  async function runJob(request: HttpRequest, key: JobKey): Promise<HttpResponse> {
    const job = await catalog.find(key);
    const body = await request.readBody(options.maxBodyBytes);
    const payment = readPayment(request);
    if (payment === undefined) throw paymentRequired();

    const paid: PaidRequest = {
      job,
      body,
      payment,
      bodyHash: createHash("sha256").update(body).digest("hex"),
    };
    const outcome = await inHand.join(
      { ...key, fingerprint: payment.fingerprint, bodyHash: paid.bodyHash },
      () => buy(paid),
    );
    if (outcome.replayed) stats.count("payment_replayed");
    else if (outcome.kind === "accepted") stats.count("accepted");
    return paymentAnswer(outcome, key, payment.x402Version);
  }

  async function buy(paid: PaidRequest): Promise<PaymentOutcome> {
    const { job, payment, bodyHash, body } = paid;
    const known = await store.findPaymentByFingerprint(payment.fingerprint);
    if (known !== undefined) {
      return {
        ...outcomeOfKnown(known, { ...job, bodyHash, fingerprint: payment.fingerprint }),
        replayed: true,
      };
    }
    const offer = await matchOffer(payment, offers.payable(job), clock());
    checkRoom();
    const requirements = requirementsFor(payment, offer);
    const [fromBlock] = await Promise.all([startBlock(offer), verify(payment, requirements)]);
    const receipt = quoteDigest(job, offer.priceWei, options.offerTime());
    const intent = {
      ...toIntent(paid, offer, receipt, JSON.stringify(requirements)),
      ...(fromBlock === undefined ? {} : { fromBlock: fromBlock.toString() }),
    };
    return settlement.settle(intent, producer.jobCall({ offer, body, receipt }));
  }

  function checkRoom(): void {
    const status = store.status();
    if (!status.writable) {
      throw new GatewayError(
        "store_unavailable",
        "The store cannot take jobs now. Nothing was charged: try again.",
        {
          headers: { "retry-after": "5" },
        },
      );
    }
    if (status.full) throw queueFull();
  }

  async function verify(
    payment: SignedPayment,
    requirements: ReturnType<typeof requirementsFor>,
  ): Promise<void> {
    const verification = await facilitator.verify({ payload: payment.payload, requirements });
    if (verification.kind === "invalid") {
      throw new GatewayError(
        "payment_invalid",
        `The facilitator refused the payment: ${verification.reason}.`,
      );
    }
    if (verification.payer !== undefined && verification.payer.toLowerCase() !== payment.from) {
      throw new GatewayError("payment_invalid", "The facilitator names another payer than the payment does.");
    }
  }

  /** Where on the chain to look for the settlement. A chain that has to confirm it must be there to do so. */
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

  function requirementsFor(payment: SignedPayment, offer: Offer) {
    const v1 = payment.x402Version === 1 ? toRequirementsV1(offer, options.resourceOf(offer.job)) : undefined;
    return v1 ?? toRequirements(offer);
  }

  function refuse(refusal: GatewayError, job: JobKey): HttpResponse {
    stats.countRefusal(refusal.code);
    const details = { charged: false, retryable: refusal.retryable, ...refusal.details };
    if (refusal.status === 402) {
      const { headers } = refusal;
      const resource = options.resourceOf(job);
      return paymentRequiredResponse({ refusal, offers: offers.current(job), resource, details, headers });
    }
    return errorResponse(refusal, details);
  }

  return async (request, job) => {
    try {
      return await runJob(request, job);
    } catch (error) {
      if (error instanceof GatewayError) return refuse(error, job);
      throw error;
    }
  };
}

function paymentRequired(): GatewayError {
  return new GatewayError(
    "payment_required",
    "This job must be paid for: sign one of the offers and send it again.",
  );
}

function toIntent(
  { job, payment, bodyHash }: PaidRequest,
  offer: Offer,
  receipt: string,
  requirements: string,
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
    requirements,
    transferMethod: token.transferMethod,
    payTo: token.payTo.toLowerCase(),
    amount,
    symbol: token.symbol,
    priceWei: priceWei.toString(),
    validBefore: Number(payment.validBefore),
    receipt,
  };
}
