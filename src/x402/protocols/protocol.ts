import type { OutgoingHttpHeaders } from "node:http";
import type { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { HttpResponse } from "../../http/response.ts";
import type { PaymentReader, SignedPayment } from "../methods/method.ts";
import type { SettlementSummary, UnpaidRequest } from "../purchase/checkout.ts";
import type { Offer } from "../wire/offer.ts";

/** A protocol in which clients buy jobs over HTTP. */
export interface PaymentProtocol extends PaymentReader {
  /** Answers a request without a payment. */
  paymentRequired(request: HttpRequest, unpaid: UnpaidRequest): HttpResponse | Promise<HttpResponse>;
  /** Returns the headers of the answer to an accepted payment. */
  acceptedHeaders(request: HttpRequest, summary: SettlementSummary): Readonly<Record<string, string>>;
  /** Answers a refused request. A 402 is a PaymentRefusal, whose offers the client can pay instead. */
  refuse(request: HttpRequest, job: JobKey, refusal: GatewayError): HttpResponse | Promise<HttpResponse>;
}

/** `_meta` of a message. */
export type Meta = Readonly<Record<string, unknown>>;

/** Error of JSON-RPC. */
export interface MessageError {
  readonly code: number;
  readonly message: string;
  readonly data: object;
}

/** Offers that a client can pay, and the request that they are for. */
export interface Asked {
  readonly offers: readonly Offer[];
  readonly body: Uint8Array | undefined;
  /** Hash of the whole request, at a job's own route. */
  readonly requestHash: string | undefined;
}

/** A payment protocol in addition to x402 whose payments and settlements travel in the `_meta` of JSON-RPC messages. */
export interface MessageProtocol {
  /** Name of a payment, with its article. */
  readonly payment: string;
  /** Payment methods, as a server announces them. */
  readonly methods: object;
  carriesPayment(meta: Meta): boolean;
  /** @throws GatewayError `invalid_payment`, `malformed_credential` */
  readPayment(meta: Meta): SignedPayment;
  /**
   * Returns how to pay: `_meta` of an answer with x402's offers, and the error for clients that announced this protocol.
   * Returns undefined if the protocol cannot pay any of the offers.
   */
  paymentRequired(
    asked: Asked,
    refusal: GatewayError,
  ): { readonly meta: Meta; readonly error: MessageError } | undefined;
  /** Returns the error that answers a refused payment; undefined if its refusal is the same in every protocol. */
  refuse(refusal: GatewayError): MessageError | undefined;
  /** Returns `_meta` of the answer to an accepted payment. */
  acceptedMeta(meta: Meta, summary: SettlementSummary): Meta;
}

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
