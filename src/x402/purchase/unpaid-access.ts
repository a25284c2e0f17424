import type { JobKey } from "../../core/job-call.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { RouteAnswer } from "../../http/routes.ts";
import type { JobDescription } from "../wire/offer.ts";

/** A way for clients that the seller knows to have jobs without a payment. */
export interface UnpaidAccess {
  /**
   * Answers a request at the route of a job that is for sale.
   * @param pays true if the request carries a payment. Such a request buys the job, unless its other credentials are unknown
   * @returns undefined for a request that has to pay
   * @throws GatewayError for unknown credentials, with which a request buys nothing
   */
  answer(request: HttpRequest, job: JobKey, pays: boolean): Promise<RouteAnswer | undefined>;
  /** Returns the extensions of a request's 402 by which its client can get access; undefined if there are none. */
  extensionsFor(request: HttpRequest, job: JobKey): JobDescription["extensions"] | undefined;
}
