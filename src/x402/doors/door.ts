import type { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { HttpResponse } from "../../http/response.ts";
import type { PaymentReader, ToldSettlement, UnpaidRequest } from "../purchase/checkout.ts";

/** A protocol in which clients buy jobs over HTTP. */
export interface Door extends PaymentReader {
  /** Answers a request without a payment. */
  askToPay(request: HttpRequest, unpaid: UnpaidRequest): HttpResponse | Promise<HttpResponse>;
  /** Returns the headers of the answer to an accepted payment. */
  acceptedHeaders(request: HttpRequest, told: ToldSettlement): Readonly<Record<string, string>>;
  /** Answers a refused request. A 402 is a PaymentRefusal, whose offers the client can pay instead. */
  refuse(request: HttpRequest, job: JobKey, refusal: GatewayError): HttpResponse | Promise<HttpResponse>;
}
