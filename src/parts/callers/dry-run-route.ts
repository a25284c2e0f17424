import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import { type HttpRequest, type JobRequest, withBodyOnce } from "../../http/request.ts";
import { errorResponse, type HttpResponse, jsonResponse } from "../../http/response.ts";
import type { JobRoutes } from "../../x402/jobs/job-routes.ts";
import type { Price } from "../../x402/prices/price.ts";
import type { PriceBook } from "../../x402/prices/price-book.ts";
import type { PaymentProtocol } from "../../x402/protocols/protocol.ts";
import type { Checkout } from "../../x402/purchase/checkout.ts";
import type { ClientLimits } from "../../x402/purchase/client-limits.ts";
import { withOffers } from "../../x402/purchase/purchase.ts";
import { PaymentRefusal } from "../../x402/purchase/refused-payments.ts";
import type { Verification } from "../../x402/purchase/verification.ts";
import type { X402Stats } from "../../x402/stats.ts";
import type { CallerAuth } from "./caller-auth.ts";
import { evmPayerOf, readCaller } from "./headers.ts";
import { parseTarget, TARGET } from "./target.ts";

interface Parts {
  readonly protocol: PaymentProtocol;
  readonly routes: JobRoutes;
  readonly checkout: Checkout;
  readonly prices: PriceBook;
  readonly callerAuth: CallerAuth;
  readonly verification: Verification;
  readonly limits: ClientLimits;
  readonly stats: X402Stats;
}

/**
 * `POST /x402/jobs/{service}/{job}/auth-dry-run`: shows a caller whether it could run the job. Settles nothing, enqueues
 * nothing and uses up no nonce.
 */
export class DryRunRoute {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async answer(request: HttpRequest, job: JobKey): Promise<HttpResponse> {
    const { stats } = this.#parts;
    const ids = { service_id: job.serviceId, job_index: job.jobIndex };
    try {
      const allowed = await this.#check(request, job);
      stats.count("auth_dry_run_allowed");
      return jsonResponse(200, { allowed: true, ...allowed, ...ids });
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      stats.count(error.status >= 500 ? "auth_dry_run_error" : "auth_dry_run_denied");
      if (error.code === "job_not_found") stats.count("job_not_found");
      const answer = errorResponse(error, { allowed: false, ...ids, ...error.details });
      if (!(error instanceof PaymentRefusal)) return answer;
      // The refusal includes the offers that the client can pay instead.
      const { headers } = await this.#parts.protocol.refuse(request, job, error);
      return { ...answer, headers: { ...headers, ...answer.headers } };
    }
  }

  /** @throws GatewayError for every refusal of the caller */
  async #check(received: HttpRequest, job: JobKey) {
    const { protocol, routes, checkout, prices, callerAuth, limits } = this.#parts;
    routes.requireNoQuery(received);
    const request = atTarget(withBodyOnce(received));
    limits.countUnpaid(request);
    // As in a purchase, an already known payment is checked before everything that a reload may have changed.
    if ((await checkout.findBought(request, job, protocol)) !== undefined) return { replayed: true };
    if (request.path === received.path && routes.routeOf(job) !== undefined)
      throw invalidTarget("is missing, and this job is sold at a route");
    routes.requireSold(request, job);
    this.#requireBuys(request, job);
    const price = await prices.find(request, job);
    const body = await checkout.readChecked(request, job, protocol);
    await this.#requireWellFormed(request, price);
    const { invocationMode: mode, restriction } = price.policy;
    if (restriction === undefined) {
      routes.requireRoom(request, job);
      return { mode };
    }
    const requestHash = checkout.requestHashOf(request, job, body);
    const asked = { body, requestHash };
    const { payer, source, verify } =
      restriction.authMode === "payer_is_caller"
        ? await this.#findPayer(request, price, asked)
        : // The caller comes from the signature, so no payment is needed.
          { payer: "0x" as const, source: "signature" };
    const { caller } = await callerAuth.authorize(price.policy, restriction, { request, ...asked, payer });
    routes.requireRoom(request, job);
    await verify?.();
    return { mode, caller, caller_source: source };
  }

  /** @throws GatewayError `method_not_allowed` for the method that shows a route's price */
  #requireBuys({ method }: JobRequest, job: JobKey): void {
    if (method !== "HEAD") return;
    const { methods = ["POST"] } = this.#parts.routes.routeOf(job) ?? {};
    throw new GatewayError("method_not_allowed", "A request with HEAD buys nothing.", {
      headers: { allow: methods.join(", ") },
    });
  }

  /** @throws PaymentRefusal `malformed_credential` */
  async #requireWellFormed(request: JobRequest, price: Price): Promise<void> {
    const { protocol, checkout } = this.#parts;
    try {
      protocol.readPayment(request);
    } catch (error) {
      if (!(error instanceof GatewayError) || error.status !== 402) return;
      const body = await checkout.readBody(request, price.policy);
      const requestHash = checkout.requestHashOf(request, price.policy, body);
      throw await withOffers(error, { findPrice: async () => price, body, requestHash });
    }
  }

  /**
   * Returns the payer of the payment that the request carries, or else the address in its caller header. As in a purchase, the
   * payment is verified once its payer is permitted.
   */
  async #findPayer(
    request: JobRequest,
    price: Price,
    asked: { readonly body: Uint8Array; readonly requestHash: string | undefined },
  ): Promise<{
    readonly payer: `0x${string}`;
    readonly source: "payment" | "header";
    readonly verify?: () => Promise<unknown>;
  }> {
    const { protocol, verification } = this.#parts;
    const payment = protocol.readPayment(request);
    if (payment === undefined) return { payer: readCaller(request), source: "header" };
    payment.requireAskedFor?.({ ...price.policy, ...asked });
    const offer = await price.match(payment, asked.body);
    return {
      payer: evmPayerOf(payment),
      source: "payment",
      verify: () => verification.verify(payment, offer, request),
    };
  }
}

/**
 * Returns the request that a dry run checks. For a job at a route, `X-HTTP-TARGET` has the request's method, path and query.
 */
function atTarget(request: JobRequest): JobRequest {
  const [target, ...more] = request.headerValues(TARGET);
  if (target === undefined) return request;
  const parsed = more.length > 0 ? undefined : parseTarget(target);
  if (parsed === undefined) throw invalidTarget("cannot be read");
  return { ...request, ...parsed };
}

function invalidTarget(problem: string): GatewayError {
  return new GatewayError(
    "bad_request",
    `X-HTTP-TARGET ${problem}: expected the method and target of the paid request, such as "GET /weather/Paris?units=metric".`,
  );
}
