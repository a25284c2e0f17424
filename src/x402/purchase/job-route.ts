import { createHash } from "node:crypto";
import type { Logger } from "pino";
import { ERROR_KINDS, type ErrorCode, GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import { jobKeyText } from "../../core/job-call.ts";
import type { HttpRequest } from "../../http/request.ts";
import { errorResponse, type HttpResponse } from "../../http/response.ts";
import { ClientGone } from "../../http/uploads.ts";
import type { WaitForResult } from "../calls/wait-for-result.ts";
import { waitSecs } from "../calls/wait-preference.ts";
import type { PriceTag } from "../prices/price-tag.ts";
import type { FindSale } from "../prices/sales.ts";
import type { PaymentOutcome } from "../settlement/payment-outcome.ts";
import type { PaymentsInHand } from "../settlement/payments-in-progress.ts";
import type { X402Stats } from "../stats.ts";
import { readPayment } from "../wire/payment-header.ts";
import { paymentRequiredResponse } from "../wire/payment-required.ts";
import type { ClientLimits } from "./client-limits.ts";
import { paymentAnswer, waitedAnswer } from "./payment-answer.ts";
import type { PaidRequest, Purchasing } from "./purchase.ts";

export interface JobRouteOptions {
  readonly findSale: FindSale;
  readonly inHand: PaymentsInHand;
  readonly purchasing: Purchasing;
  readonly waitForResult: WaitForResult;
  readonly limits: ClientLimits;
  readonly stats: X402Stats;
  readonly logger: Logger;
  readonly maxBodyBytes: number;
  /** Absolute URL of a job, as clients are told. */
  readonly resourceOf: (job: JobKey) => string;
}

/** `POST /x402/jobs/{service}/{job}`: pays for one run of a job. */
export type JobRoute = (request: HttpRequest, job: JobKey) => Promise<HttpResponse>;

export function createJobRoute(options: JobRouteOptions): JobRoute {
  const { findSale, inHand, purchasing, waitForResult } = options;
  const { limits, stats, logger, maxBodyBytes, resourceOf } = options;

  /** In the order of the refusals; {@link Purchasing} goes on from the payment to the money. */
  async function runJob(request: HttpRequest, key: JobKey): Promise<HttpResponse> {
    const sale = await findSale(request, key);
    const body = await request.readBody(maxBodyBytes);
    const priceTag = sale.priceTag(body);
    try {
      return await buy({ job: sale.job, priceTag, body, request });
    } catch (error) {
      if (error instanceof GatewayError && error.status === 402) return askForPayment(error, key, priceTag);
      throw error;
    }
  }

  async function buy(
    asked: Pick<PaidRequest, "job" | "priceTag" | "body" | "request">,
  ): Promise<HttpResponse> {
    const { job, body, request } = asked;
    const { serviceId, jobIndex } = job;
    const payment = readPayment(request);
    if (payment === undefined) {
      await limits.countUnpaid(request.remoteAddress);
      throw new GatewayError(
        "payment_required",
        "This job must be paid for: sign one of the offers and send the request again.",
      );
    }

    const bodyHash = createHash("sha256").update(body).digest("hex");
    const { fingerprint, x402Version } = payment;
    const outcome = await inHand.join({ serviceId, jobIndex, bodyHash, fingerprint }, () =>
      purchasing.buy({ ...asked, bodyHash, payment }),
    );
    if (outcome.replayed) stats.count("payment_replayed");
    else if (outcome.kind === "accepted") stats.count("accepted");
    return answer(outcome, job, x402Version, request);
  }

  /** The money has moved, or has not: from here on nothing but the request waits for the job. */
  async function answer(
    outcome: PaymentOutcome,
    job: JobKey,
    x402Version: 1 | 2,
    request: HttpRequest,
  ): Promise<HttpResponse> {
    const seconds = waitSecs(request);
    if (outcome.kind !== "accepted" || seconds === undefined) {
      return paymentAnswer(outcome, { job, x402Version });
    }
    const waited = await waitForResult(outcome.callId, seconds, request.closed);
    if (waited.kind === "not_waited") return paymentAnswer(outcome, { job, x402Version });
    const options = { job, x402Version, waitedSecs: seconds };
    return waited.kind === "succeeded"
      ? waitedAnswer(outcome, options, waited.result)
      : paymentAnswer(outcome, options);
  }

  /** @throws GatewayError when there is nothing to ask for, unless the client has to learn of a settlement */
  async function askForPayment(
    refusal: GatewayError,
    job: JobKey,
    priceTag: PriceTag,
  ): Promise<HttpResponse> {
    const offers = await priceTag.offers().catch((error: unknown) => {
      if (refusal.code === "settlement_failed") return [];
      throw error;
    });
    stats.countRefusal(refusal.code);
    const { code, headers } = refusal;
    const details = { ...chargedNothing(code), ...refusal.details };
    return paymentRequiredResponse({ refusal, offers, resource: resourceOf(job), details, headers });
  }

  function refuse(refusal: GatewayError, { serviceId, jobIndex }: JobKey): HttpResponse {
    stats.countRefusal(refusal.code);
    return errorResponse(refusal, {
      ...chargedNothing(refusal.code),
      ...(refusal.status === 403 || refusal.status === 404
        ? { service_id: serviceId, job_index: jobIndex }
        : {}),
      ...refusal.details,
    });
  }

  /** Without a payment, being asked for one is the ordinary course: only the debug log has that. */
  function logRefusal({ id, headers }: HttpRequest, { serviceId, jobIndex }: JobKey, code: ErrorCode): void {
    if ((headers["payment-signature"] ?? headers["x-payment"]) === undefined) return;
    logger.info({ request: id, job: jobKeyText(serviceId, jobIndex), code }, "paid request refused");
  }

  async function answerOrRefuse(request: HttpRequest, job: JobKey): Promise<HttpResponse> {
    try {
      return await runJob(request, job);
    } catch (error) {
      if (error instanceof GatewayError) return refuse(error, job);
      if (error instanceof ClientGone) throw error;
      throw new GatewayError("internal_error", "Something went wrong inside jobgate.", {
        cause: error,
        details: { ...chargedNothing("internal_error"), charged: "unknown" },
      });
    }
  }

  return async (request, job) => {
    const response = await answerOrRefuse(request, job);
    if (response.refusal !== undefined) logRefusal(request, job, response.refusal);
    return response;
  };
}

/** What every refusal of a paid request says besides its code, unless money may have moved. */
export function chargedNothing(code: ErrorCode): { charged: false; retryable: boolean } {
  return { charged: false, retryable: ERROR_KINDS[code].retryable };
}
