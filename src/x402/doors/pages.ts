import type { OutgoingHttpHeaders } from "node:http";
import type { JobKey } from "../../core/job-call.ts";
import type { HttpResponse } from "../../http/response.ts";
import type { Offer } from "../wire/offer.ts";

/** Pages for people who open the jobs in a browser. */
export interface Pages {
  /** Headers of the list of jobs. */
  readonly listHeaders: OutgoingHttpHeaders;
  /** Renders the list of jobs. @param json pieces of the list as JSON */
  list(json: Iterable<string>): Iterable<string>;
  /** Renders the 402 of a request as a page. */
  payment(
    answer: HttpResponse,
    asked: { readonly job: JobKey; readonly offers: readonly Offer[]; readonly method: string },
  ): Promise<HttpResponse>;
}
