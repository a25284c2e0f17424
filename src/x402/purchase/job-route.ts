import type { Logger } from "pino";
import { ERROR_KINDS, type ErrorCode, GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { HttpRequest } from "../../http/request.ts";
import { errorResponse, type HttpResponse } from "../../http/response.ts";
import { ClientGone } from "../../http/uploads.ts";
import type { AccessTokens } from "../calls/access-tokens.ts";
import { preferredWaitSecs, type ResultWaits } from "../calls/wait-for-result.ts";
import type { X402Stats } from "../stats.ts";
import { jobUrl } from "../wire/paths.ts";
import { PaymentRefusal, paymentRequiredResponse } from "../wire/payment-required.ts";
import { type AcceptedPayment, acceptedAnswer, resultAnswer } from "./payment-answer.ts";
import type { Purchase } from "./purchase.ts";

interface Parts {
  readonly purchase: Purchase;
  readonly waits: ResultWaits;
  readonly tokens: AccessTokens;
  readonly publicUrl: string;
  readonly stats: X402Stats;
  readonly logger: Logger;
}

/** `POST /x402/jobs/{service}/{job}`: sells one run of a job. */
export class JobRoute {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async answer(request: HttpRequest, job: JobKey): Promise<HttpResponse> {
    try {
      const payment = await this.#parts.purchase.buy(request, job);
      return await this.#accept(request, job, payment);
    } catch (error) {
      if (error instanceof GatewayError) return this.#refuse(request, job, error);
      if (error instanceof ClientGone) throw error;
      throw new GatewayError("internal_error", "Something went wrong inside jobgate.", {
        cause: error,
        details: { ...chargedNothing("internal_error"), charged: "unknown" },
      });
    }
  }

  /** Answers a payment that bought the job: with its result if the client prefers to wait and it arrives in time. */
  async #accept(request: HttpRequest, job: JobKey, payment: AcceptedPayment): Promise<HttpResponse> {
    const { waits, tokens } = this.#parts;
    const bought = { ...payment, accessToken: tokens.tokenOf(payment.payment) };
    const waitSecs = preferredWaitSecs(request);
    if (waitSecs === undefined) return acceptedAnswer(bought, job);
    const waited = await waits.waitFor(payment.callId, waitSecs, request.closed);
    switch (waited.kind) {
      case "succeeded":
        return resultAnswer(bought, waitSecs, waited.result);
      case "not_in_time":
        return acceptedAnswer(bought, job, waitSecs);
      case "not_waited":
        return acceptedAnswer(bought, job);
    }
  }

  #refuse(request: HttpRequest, job: JobKey, refusal: GatewayError): HttpResponse {
    const { publicUrl, stats, logger } = this.#parts;
    const { code, status } = refusal;
    stats.countRefusal(code);
    // Being asked to pay is ordinary for a request without a payment: only the debug log has it.
    if ((request.headers["payment-signature"] ?? request.headers["x-payment"]) !== undefined) {
      const key = jobKeyText(job.serviceId, job.jobIndex);
      logger.info({ request: request.id, job: key, code }, "paid request refused");
    }
    if (refusal instanceof PaymentRefusal) {
      const details = { ...chargedNothing(code), ...refusal.details };
      return paymentRequiredResponse(refusal, jobUrl(publicUrl, job), details);
    }
    return errorResponse(refusal, {
      ...chargedNothing(code),
      ...(status === 403 || status === 404 ? { service_id: job.serviceId, job_index: job.jobIndex } : {}),
      ...refusal.details,
    });
  }
}

/** Fields that every refusal of a paid request has besides its code, unless money may have moved. */
export function chargedNothing(code: ErrorCode): { charged: false; retryable: boolean } {
  return { charged: false, retryable: ERROR_KINDS[code].retryable };
}
