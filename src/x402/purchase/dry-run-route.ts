import type { JobRestriction } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { HttpRequest } from "../../http/request.ts";
import { errorResponse, type HttpResponse, jsonResponse } from "../../http/response.ts";
import type { CallerAuth } from "../callers/caller-auth.ts";
import { readCaller } from "../callers/headers.ts";
import type { PriceTag } from "../prices/price-tag.ts";
import type { FindSale } from "../prices/sales.ts";
import type { X402Stats } from "../stats.ts";
import { readPayment } from "../wire/payment-header.ts";
import type { ClientLimits } from "./client-limits.ts";
import type { Purchasing } from "./purchase.ts";

export interface DryRunRouteOptions {
  readonly findSale: FindSale;
  readonly callerAuth: CallerAuth;
  readonly purchasing: Purchasing;
  readonly limits: ClientLimits;
  readonly stats: X402Stats;
  readonly maxBodyBytes: number;
}

/** Where the caller that was checked comes from. */
type CallerSource = "payment" | "header" | "signature";

/**
 * `POST /x402/jobs/{service}/{job}/auth-dry-run`: whether the caller could run the job, without any side effect:
 * nothing is settled or enqueued, and no nonce is used up.
 */
export function createDryRunRoute(options: DryRunRouteOptions) {
  const { findSale, callerAuth, purchasing, limits, stats, maxBodyBytes } = options;

  async function dryRun(request: HttpRequest, key: JobKey): Promise<HttpResponse> {
    await limits.countUnpaid(request.remoteAddress);
    const { job, priceTag } = await findSale(request, key);
    const { restriction, invocationMode } = job.policy;
    const ids = { service_id: job.serviceId, job_index: job.jobIndex };
    if (restriction === undefined) return jsonResponse(200, { allowed: true, mode: invocationMode, ...ids });

    const body = await request.readBody(maxBodyBytes);
    const { payer, source } = await findPayer(request, priceTag(body), restriction);
    const { caller } = await callerAuth.authorize(job, restriction, { request, body, payer });
    return jsonResponse(200, {
      allowed: true,
      mode: invocationMode,
      caller,
      caller_source: source,
      ...ids,
    });
  }

  /** Of a `payer_is_caller` job: the payer of the payment that is sent along, else whoever the caller says it is. */
  async function findPayer(
    request: HttpRequest,
    priceTag: PriceTag,
    { authMode }: JobRestriction,
  ): Promise<{ payer: `0x${string}`; source: CallerSource }> {
    if (authMode === "delegated_caller_signature") return { payer: "0x", source: "signature" };
    const payment = readPayment(request);
    if (payment === undefined) return { payer: readCaller(request), source: "header" };
    await purchasing.verify(priceTag, payment, request);
    return { payer: payment.from, source: "payment" };
  }

  return async (request: HttpRequest, job: JobKey): Promise<HttpResponse> => {
    try {
      const response = await dryRun(request, job);
      stats.count("auth_dry_run_allowed");
      return response;
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      stats.count(error.status >= 500 ? "auth_dry_run_error" : "auth_dry_run_denied");
      if (error.code === "job_not_found") stats.count("job_not_found");
      const { serviceId, jobIndex } = job;
      return errorResponse(error, {
        allowed: false,
        service_id: serviceId,
        job_index: jobIndex,
        ...error.details,
      });
    }
  };
}
