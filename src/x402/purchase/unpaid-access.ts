import type { JobKey } from "../../core/job-call.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { RouteAnswer } from "../../http/routes.ts";
import type { JobDescription } from "../wire/offer.ts";

/** A way to have what is sold without a payment, for clients that the seller knows. */
export interface UnpaidAccess {
  /**
   * Answers a request at the route of a job that is for sale.
   * @param pays the request carries a payment: it buys, and its other credentials have to be known all the same
   * @returns undefined for a request that has to pay
   * @throws GatewayError for credentials that nobody has: such a request buys nothing
   */
  answer(request: HttpRequest, job: JobKey, pays: boolean): Promise<RouteAnswer | undefined>;
  /** Returns extensions of the 402 of a request, by which its client can get in; undefined if there are none. */
  extensionsFor(request: HttpRequest, job: JobKey): JobDescription["extensions"] | undefined;
}
