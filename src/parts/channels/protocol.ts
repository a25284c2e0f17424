import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import { type HttpRequest, type JobRequest, withBodyOnce } from "../../http/request.ts";
import type { HttpResponse } from "../../http/response.ts";
import type { PaymentProtocol } from "../../x402/protocols/protocol.ts";
import type { SettlementSummary, UnpaidRequest } from "../../x402/purchase/checkout.ts";
import { withOffers } from "../../x402/purchase/purchase.ts";
import { VERSION_2 } from "../../x402/wire/version.ts";
import { type ChannelRefunds, isForRefund } from "./refunds.ts";

/** Protocol of requests for refunds of channels. Such a request is sent in place of a payment, and pays nothing. */
export class RefundProtocol implements PaymentProtocol {
  readonly #x402: PaymentProtocol;
  readonly #refunds: ChannelRefunds;

  constructor(x402: PaymentProtocol, refunds: ChannelRefunds) {
    this.#x402 = x402;
    this.#refunds = refunds;
  }

  get bindsBody() {
    return this.#x402.bindsBody as true;
  }

  carriesPayment(request: JobRequest): boolean {
    return this.#x402.carriesPayment(request) && !isForRefund(request);
  }

  readPayment(request: JobRequest) {
    try {
      return this.#x402.readPayment(request);
    } catch (error) {
      // A request for a refund fails here, because its payload is not a payment.
      if (isForRefund(request)) return undefined;
      throw error;
    }
  }

  async paymentRequired(request: HttpRequest, unpaid: UnpaidRequest): Promise<HttpResponse> {
    if (!isForRefund(request)) return this.#x402.paymentRequired(request, unpaid);
    try {
      this.#requireAlone(request);
      return await this.#refunds.answer(request);
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      const price = { offers: async () => unpaid.offers };
      const of = { findPrice: async () => price as never, body: new Uint8Array(), requestHash: undefined };
      return this.#x402.refuse(request, unpaid.job, (await withOffers(error, of)) as GatewayError);
    }
  }

  /** @throws GatewayError `invalid_payment` for a request that also has a payment, well-formed or not */
  #requireAlone(request: HttpRequest): void {
    const { [VERSION_2.headers.payment]: _, ...headers } = request.headers;
    if (!this.#x402.carriesPayment({ ...withBodyOnce(request), headers })) return;
    throw new GatewayError(
      "invalid_payment",
      "The request for a refund also has a payment: send one of them. Nothing was charged or paid back.",
    );
  }

  acceptedHeaders(request: HttpRequest, summary: SettlementSummary) {
    return this.#x402.acceptedHeaders(request, summary);
  }

  refuse(request: HttpRequest, job: JobKey, refusal: GatewayError) {
    return this.#x402.refuse(request, job, refusal);
  }
}
