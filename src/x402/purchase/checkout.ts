import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { PurchaseNotes } from "../../core/payment.ts";
import { type JobRequest, withBodyOnce } from "../../http/request.ts";
import type { JobRoutes } from "../jobs/job-routes.ts";
import type { PaymentReader, SignedPayment } from "../methods/method.ts";
import type { SoldPolicy } from "../prices/job-policies.ts";
import type { Price } from "../prices/price.ts";
import type { PriceBook } from "../prices/price-book.ts";
import { buysTheSame, type PaymentOutcome, type PurchaseIdentity } from "../settlement/payment-outcome.ts";
import type { Offer } from "../wire/offer.ts";
import type { ClientLimits } from "./client-limits.ts";
import { bindRequest, readablePayment, requestHashOf } from "./earlier-payments.ts";
import type { InputChecks } from "./input-checks.ts";
import { type AcceptedPayment, type Purchase, withOffers } from "./purchase.ts";
import type { PaidRequest } from "./steps.ts";
import type { NotedHeader } from "./terms.ts";

/** Outcome of a request that is not refused. */
type Sale =
  | { readonly kind: "bought"; readonly payment: AcceptedPayment }
  | { readonly kind: "unpaid"; readonly unpaid: UnpaidRequest };

/** A request without a payment, and the offers that its client can pay. */
export interface UnpaidRequest {
  readonly job: SoldPolicy;
  /** Undefined if the request buys nothing. */
  readonly body: Uint8Array | undefined;
  /** Hash of the whole request, at a job's own route. */
  readonly requestHash: string | undefined;
  readonly offers: readonly Offer[];
}

/** Settlement fields that the answer to a payment includes. */
export type SettlementSummary = Pick<
  Extract<PaymentOutcome, { kind: "accepted" }>,
  "settlement" | "takenAt" | "replayed" | "extensionResponses"
>;

/** The way from a request to its purchase, in the order of refusals that clients of every protocol rely on. */
export class Checkout {
  readonly #routes: JobRoutes;
  readonly #prices: PriceBook;
  readonly #inputs: InputChecks;
  readonly #notes: readonly NotedHeader[];
  readonly #purchase: Purchase;
  readonly #limits: ClientLimits;

  constructor(parts: {
    readonly routes: JobRoutes;
    readonly prices: PriceBook;
    readonly inputs: InputChecks;
    /** Headers whose values are kept with payments. */
    readonly notes: readonly NotedHeader[];
    readonly purchase: Purchase;
    readonly limits: ClientLimits;
  }) {
    this.#routes = parts.routes;
    this.#prices = parts.prices;
    this.#inputs = parts.inputs;
    this.#notes = parts.notes;
    this.#purchase = parts.purchase;
    this.#limits = parts.limits;
  }

  /**
   * A payment that is already known gets its first outcome. The configuration may have changed since, so all checks that
   * depend on it come later. The comments name the refusals of each step.
   * @throws GatewayError
   */
  async buy(received: JobRequest, job: JobKey, protocol: PaymentReader): Promise<Sale> {
    const request = withBodyOnce(received);
    // store_unavailable
    const paid = await this.#findPaid(request, job, protocol);
    if (paid !== undefined) return { kind: "bought", payment: await this.#buyPaid(paid, protocol) };
    // not_found, query_not_allowed, job_not_found, api_unreachable, job_paused, x402_disabled, price_unavailable;
    // the refusals of a price that the request names
    const price = await this.#findPrice(request, job);
    // headers_too_large
    this.#routes.requireRoom(request, job);
    if (price.isOfBody !== true && this.#spares(request, job, protocol)) {
      await this.#checkInput(request, job, undefined);
      this.#limits.countUnpaid(request);
      const offers = await price.offers(NO_BODY);
      return {
        kind: "unpaid",
        unpaid: { job: price.policy, body: undefined, requestHash: undefined, offers },
      };
    }
    // body_too_large, invalid_input, the refusals of noted headers, rate_limited
    const body = await this.readChecked(request, job, protocol);
    const requestHash = this.requestHashOf(request, job, body);
    try {
      // invalid_payment, malformed_credential
      protocol.readPayment(request);
    } catch (error) {
      throw await withOffers(error, { findPrice: async () => price, body, requestHash });
    }
    // rate_limited
    this.#limits.countUnpaid(request);
    const offers = await price.offers(body);
    return { kind: "unpaid", unpaid: { job: price.policy, body, requestHash, offers } };
  }

  /**
   * Finds the earlier purchase of the request's payment. The body of the request must be readable several times.
   * @returns undefined for a payment that was not seen before
   * @throws GatewayError `payment_replay` or the refusal of the name, `settlement_failed`, `settlement_unknown`
   */
  async findBought(
    request: JobRequest,
    job: JobKey,
    protocol: PaymentReader,
  ): Promise<AcceptedPayment | undefined> {
    const paid = await this.#findPaid(request, job, protocol);
    return paid && this.#purchase.findBought(paid);
  }

  /**
   * Finds the job of a payment that is already known, because the job may have left the configuration.
   * @returns undefined for a payment that was not seen before, or cannot be read
   */
  async findEarlier(request: JobRequest, protocol: PaymentReader): Promise<PurchaseIdentity | undefined> {
    const payment = readablePayment(request, protocol);
    return payment && this.#purchase.findEarlier(payment);
  }

  /**
   * Finds the outcome of a payment for a request that cannot be rebuilt, because its route has left the configuration.
   * @throws GatewayError `settlement_failed`, `settlement_unknown`
   */
  async findOutcome(request: JobRequest, protocol: PaymentReader): Promise<AcceptedPayment | undefined> {
    const payment = readablePayment(request, protocol);
    return payment && this.#purchase.findOutcome(payment);
  }

  /**
   * Finds the outcome of a payment that its method binds to its request, for the same request.
   * @param isFirst compares this purchase with an earlier one. Default: compares the whole requests, and not the jobs
   * @throws GatewayError `body_too_large`, `settlement_failed`, `settlement_unknown`
   */
  async findBound(
    received: JobRequest,
    protocol: PaymentReader,
    isFirst?: Parameters<Purchase["findBound"]>[1],
  ): ReturnType<Purchase["findBound"]> {
    const request = withBodyOnce(received);
    const payment = readablePayment(request, protocol);
    const isSame = async (known: PurchaseIdentity) => {
      const bound = bindRequest(request, await this.readBody(request, known), known.boundHeaders);
      return buysTheSame(known, { ...known, ...bound, notes: this.#readNotes(request).notes });
    };
    return payment?.method.bind && this.#purchase.findBound(payment, isFirst ?? isSame);
  }

  /**
   * Makes a request of a message. A payment that is already known is refused as such before the message is.
   * @param make throws if the message makes no request
   * @throws GatewayError `payment_replay` or the refusal of the name, and what `make` throws
   */
  async requestOf<Made>(message: JobRequest, protocol: PaymentReader, make: () => Made): Promise<Made> {
    try {
      return make();
    } catch (refusal) {
      const payment = readablePayment(message, protocol);
      if (payment !== undefined) await this.#purchase.refuseKnown(payment);
      throw refusal;
    }
  }

  /** Returns the offers that anyone can pay now, for a request that buys nothing. @throws GatewayError */
  async show(request: JobRequest, job: JobKey): Promise<UnpaidRequest> {
    this.#routes.requireShown(request, job);
    this.#purchase.requireOpen(job);
    // A price that a request names may apply to one body only, so it is not used here.
    const price = await this.#prices.findCurrent(job);
    this.#limits.countUnpaid(request);
    const offers = await price.offers(new Uint8Array());
    return { job: price.policy, body: undefined, requestHash: undefined, offers };
  }

  /** Refuses a request that is answered without a payment. @throws GatewayError */
  requireOpenUnpaid(...sold: Parameters<Purchase["requireOpenUnpaid"]>): void {
    this.#purchase.requireOpenUnpaid(...sold);
  }

  /** @throws GatewayError `body_too_large`, and as {@link JobRequest.readBody} */
  readBody(request: JobRequest, job: JobKey): Promise<Uint8Array> {
    return request.readBody(this.#inputs.maxBodyBytes(job));
  }

  /**
   * Reads the body of a request that buys nothing now, and checks it as the body of a purchase.
   * @throws GatewayError `body_too_large`, `invalid_input`, `rate_limited`, the refusals of noted headers
   */
  async readChecked(request: JobRequest, job: JobKey, protocol: PaymentReader): Promise<Uint8Array> {
    const body = await this.readBody(request, job);
    // An empty body that does not match buys nothing, but catalogues send one to learn the price.
    const isQuestion = body.length === 0 && readablePayment(request, protocol) === undefined;
    await this.#checkInput(request, job, isQuestion ? undefined : body);
    return body;
  }

  /** Returns the hash of a whole request at a job's own route; undefined for a job at its ids. */
  requestHashOf(request: JobRequest, job: JobKey, body: Uint8Array): string | undefined {
    const boundHeaders = this.#routes.boundHeadersOf(request, job);
    return boundHeaders === undefined ? undefined : requestHashOf(bindRequest(request, body, boundHeaders));
  }

  /**
   * Buys a run of a job. A payment that is refused, and that its method bound to the same request when another job had the path,
   * gets its first outcome.
   * @throws GatewayError
   */
  async #buyPaid(paid: PaidRequest, protocol: PaymentReader): Promise<AcceptedPayment> {
    try {
      return await this.#purchase.buy(paid);
    } catch (refusal) {
      if (!(refusal instanceof GatewayError)) throw refusal;
      const isFirst = (known: PurchaseIdentity) => buysTheSame(known, paid.identityLike(known));
      const bought = await this.findBound(paid.request, protocol, isFirst);
      if (bought === undefined) throw refusal;
      return bought.payment;
    }
  }

  /** Reads a request's payment and purchase; undefined if its payment or body cannot be read. */
  async #findPaid(
    request: JobRequest,
    job: JobKey,
    protocol: PaymentReader,
  ): Promise<PaidRequest | undefined> {
    const read = readablePayment(request, protocol);
    if (read === undefined) return undefined;
    const body = await this.#readPaidBody(request, job, read);
    if (body === undefined) return undefined;
    const { notes } = this.#readNotes(request);
    const { serviceId, jobIndex } = job;
    const boundHeaders = this.#routes.boundHeadersOf(request, job);
    const binding = bindRequest(request, body, boundHeaders);
    const payment = await this.#purchase.recognise(
      read.method.bind?.(read, `${jobKeyText(serviceId, jobIndex)} ${binding.bodyHash}`) ?? read,
    );
    const { fingerprint, purchaseName, from: payer } = payment;
    const identity = {
      serviceId,
      jobIndex,
      bodyHash: binding.bodyHash,
      boundHeaders,
      notes,
      fingerprint,
      purchaseName,
      key: { payer },
    };
    let price: Promise<Price> | undefined;
    const findPrice = () => (price ??= this.#findPrice(request, job));
    const checkInput = () => this.#checkInput(request, job, body);
    const identityLike = ({ boundHeaders: names }: PurchaseIdentity) =>
      names === undefined || boundHeaders === undefined
        ? identity
        : { ...identity, ...bindRequest(request, body, names) };
    const requestHash = requestHashOf(binding);
    return { request, payment, body, requestHash, identity, identityLike, findPrice, checkInput };
  }

  /**
   * Reads the body of a paid request; undefined for a body that a later check refuses.
   * @throws GatewayError the refusal, if the payment was seen before, because it may have bought the job with this
   * body, under an earlier limit
   */
  async #readPaidBody(
    request: JobRequest,
    job: JobKey,
    payment: SignedPayment,
  ): Promise<Uint8Array | undefined> {
    try {
      this.#routes.requireNoQuery(request);
      return await this.readBody(request, job);
    } catch (refusal) {
      if (!(refusal instanceof GatewayError)) throw refusal;
      if ((await this.#purchase.findEarlier(payment)) === undefined) return undefined;
      const { code, headers } = refusal;
      throw new GatewayError(
        code,
        "This payment was sent before. To get its outcome, send exactly the same request again, with the same body and without a query string. This request charged nothing.",
        { cause: refusal, details: { charged: "unknown" }, headers },
      );
    }
  }

  /** @throws GatewayError */
  async #findPrice(request: JobRequest, job: JobKey): Promise<Price> {
    this.#requireSold(request, job);
    return this.#prices.find(request, job);
  }

  /**
   * Returns true if an unpaid request is answered without its body, because the client waits for `100 Continue` before
   * it sends the body, and no check needs it.
   */
  #spares(request: JobRequest, job: JobKey, protocol: PaymentReader): boolean {
    const { expect, "content-length": announced = "0" } = request.headers;
    if (expect?.toLowerCase() !== "100-continue") return false;
    if (Number(announced) > this.#inputs.maxBodyBytes(job)) return false;
    return protocol.bindsBody !== true && !protocol.carriesPayment(request) && !this.#inputs.readsBody(job);
  }

  /** @throws GatewayError */
  #requireSold(request: JobRequest, job: JobKey): void {
    this.#routes.requireSold(request, job);
    this.#purchase.requireOpen(job);
  }

  /** Checks path, query, body and noted headers. @throws GatewayError `invalid_input`, `rate_limited`, the refusals of noted headers */
  async #checkInput(request: JobRequest, job: JobKey, body: Uint8Array | undefined): Promise<void> {
    const refusal =
      (await this.#inputs.refusalOf(request, job, { body, params: this.#routes.paramsOf(request) })) ??
      this.#readNotes(request).refusal;
    if (refusal !== undefined) this.#limits.refuseUnpaid(request, refusal);
  }

  /**
   * Reads the noted headers. Returns a note for each header, which is undefined if the request lacks the header, and
   * the first refusal.
   */
  #readNotes(request: JobRequest): {
    readonly notes: PurchaseNotes;
    readonly refusal?: GatewayError | undefined;
  } {
    const read = this.#notes.map(({ name, read }) => {
      const values = request.headerValues(name.toLowerCase());
      return { name, ...(values.length > 0 && read(values)) };
    });
    return {
      notes: Object.fromEntries(read.map(({ name, note }) => [name, note])),
      refusal: read.find(({ refusal }) => refusal)?.refusal,
    };
  }
}

const NO_BODY = new Uint8Array();
