import type { PaymentRequired } from "@x402/core/types";
import { stringify } from "lossless-json";
import type { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import { type HttpRequest, type JobRequest, prefersHtml } from "../../http/request.ts";
import { type HttpResponse, jsonTextResponse } from "../../http/response.ts";
import type { JobDescriptions } from "../jobs/job-descriptions.ts";
import type { Methods } from "../methods/methods.ts";
import type { SettlementSummary, UnpaidRequest } from "../purchase/checkout.ts";
import { chargedNothing, refusalResponse } from "../purchase/job-route.ts";
import { PaymentRefusal, paymentRequired } from "../purchase/refused-payments.ts";
import type { UnpaidAccess } from "../purchase/terms.ts";
import { AnswerExtensions } from "../wire/extensions.ts";
import { type JobDescription, type Offer, toRequirements } from "../wire/offer.ts";
import { carriesPayment, encodeHeader, readPayment, versionOf } from "../wire/payment-header.ts";
import type { Versions, WireVersion } from "../wire/version.ts";
import type { Pages, PaymentProtocol } from "./protocol.ts";

type Refused = Pick<PaymentRefusal, "code" | "status" | "message" | "headers" | "details" | "offers">;

/** An error is created once for all requests without a payment, because its stack costs time. */
const UNPAID = paymentRequired([]);

function unpaid(offers: readonly Offer[]): Refused {
  const { code, status, message, headers, details } = UNPAID;
  return { code, status, message, headers, details, offers };
}

/** x402 over HTTP: `PAYMENT-SIGNATURE`, and the headers of other versions. */
export class X402Protocol implements PaymentProtocol {
  readonly #descriptions: JobDescriptions;
  readonly #methods: Methods;
  readonly #pages: Pages | undefined;
  readonly #extensions: AnswerExtensions;
  readonly #accesses: readonly UnpaidAccess[];
  /** Answers to requests without a payment. The same offers are shown many times, and rendering them takes 70 µs. */
  readonly #paymentRequired = new WeakMap<
    readonly Offer[],
    { readonly answer: HttpResponse; readonly added: object }
  >();

  /**
   * @param parts without `extensions`, only the jobs' extensions are used; without `pages`, browsers are answered as
   *   programs are
   */
  constructor(parts: {
    readonly descriptions: JobDescriptions;
    readonly methods: Methods;
    readonly pages?: Pages | undefined;
    readonly extensions?: AnswerExtensions;
    readonly accesses?: readonly UnpaidAccess[];
  }) {
    this.#descriptions = parts.descriptions;
    this.#methods = parts.methods;
    this.#pages = parts.pages;
    this.#extensions = parts.extensions ?? new AnswerExtensions();
    this.#accesses = parts.accesses ?? [];
  }

  readonly carriesPayment = (request: JobRequest) => carriesPayment(request, this.#methods.versions);
  readonly readPayment = (request: JobRequest) => readPayment(request, this.#methods);

  /** This answers the ordinary first request, so it creates no error, whose stack would cost time. */
  async paymentRequired(request: HttpRequest, { job, offers }: UnpaidRequest): Promise<HttpResponse> {
    const answer = await this.#unpaidResponse(request, { job, offers });
    const { method } = request;
    return this.#pages && prefersHtml(request)
      ? this.#pages.payment(answer, { job, offers, method })
      : answer;
  }

  async #unpaidResponse(
    request: HttpRequest,
    { job, offers }: Pick<UnpaidRequest, "job" | "offers">,
  ): Promise<HttpResponse> {
    const added = await this.#extensions.ofOffers(offers);
    const ofRequest = this.#accesses.flatMap((access) => access.extensionsFor(request, job) ?? []);
    if (ofRequest.length > 0)
      return this.#paymentRequiredResponse(unpaid(offers), job, Object.assign({}, added, ...ofRequest));
    let shown = this.#paymentRequired.get(offers);
    if (shown === undefined || shown.added !== added) {
      shown = { answer: this.#paymentRequiredResponse(unpaid(offers), job, added), added };
      this.#paymentRequired.set(offers, shown);
    }
    return shown.answer;
  }

  acceptedHeaders(request: HttpRequest, summary: SettlementSummary): Record<string, string> {
    return settlementHeaders(summary, this.#versionOf(request));
  }

  async refuse(request: HttpRequest, job: JobKey, refusal: GatewayError): Promise<HttpResponse> {
    if (!(refusal instanceof PaymentRefusal)) return refusalResponse(refusal, job);
    const added = await this.#extensions.ofOffers(refusal.offers);
    const response = this.#paymentRequiredResponse(refusal, job, added);
    const { settled } = refusal;
    if (settled === undefined) return response;
    return {
      ...response,
      headers: { ...response.headers, ...settlementHeaders(settled, this.#versionOf(request)) },
    };
  }

  #versionOf(request: JobRequest): WireVersion {
    const { versions } = this.#methods;
    return versionOf(request, versions) ?? versions.current;
  }

  #paymentRequiredResponse(refusal: Refused, job: JobKey, added: object): HttpResponse {
    const details = { ...chargedNothing(refusal.code), ...refusal.details };
    const description = this.#descriptions.withOffers(job, refusal.offers);
    const extensions = { ...description.extensions, ...added };
    return paymentRequiredResponse(refusal, { ...description, extensions }, details, this.#methods.versions);
  }
}

/** Headers with the settlement, and with the facilitator's verdict on the payment's extensions. */
function settlementHeaders(
  { settlement, extensionResponses }: Pick<SettlementSummary, "settlement" | "extensionResponses">,
  { headers, nameOf }: WireVersion,
): Record<string, string> {
  const extensions: Record<string, string> =
    extensionResponses === undefined ? {} : { "extension-responses": extensionResponses };
  // Nothing has moved yet for a job that is charged after it ran.
  if (settlement === undefined) return extensions;
  const network = nameOf(settlement.network) ?? settlement.network;
  return { [headers.settlement]: encodeHeader({ ...settlement, network }), ...extensions };
}

/**
 * Returns one 402 that clients of all versions can pay: clients of the current version read the header, other clients read
 * the body. If no other version can express any of the offers, the body has the content of the header.
 * @param details further fields of the body
 */
export function paymentRequiredResponse(
  { code, status, message, headers, offers }: Omit<Refused, "details">,
  job: JobDescription,
  details: Readonly<Record<string, unknown>>,
  { added }: Pick<Versions, "added">,
): HttpResponse {
  const required: PaymentRequired = {
    x402Version: 2,
    error: message,
    resource: job.resource,
    accepts: offers.map(toRequirements),
    extensions: job.extensions,
  };
  const inOthers = added.map((version) => ({
    x402Version: version.number,
    error: message,
    accepts: offers.flatMap((offer) => version.requirementsOf(offer, job) ?? []),
  }));
  const body = inOthers.find(({ accepts }) => accepts.length > 0) ?? required;
  const response = jsonTextResponse(status, jsonOf({ ...body, code, ...details }, details), {
    "payment-required": encodeHeader(required),
    ...headers,
  });
  return { ...response, refusal: code };
}

/** Only details can have numbers of any length. All other JSON is written by the engine, which is faster. */
function jsonOf(
  value: Readonly<Record<string, unknown>>,
  details: Readonly<Record<string, unknown>>,
): string {
  const isPlain = Object.values(details).every((one) => typeof one === "string" || typeof one === "boolean");
  return isPlain ? JSON.stringify(value) : (stringify(value) as string);
}
