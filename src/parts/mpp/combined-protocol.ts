import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { HttpResponse } from "../../http/response.ts";
import type { SignedPayment } from "../../x402/methods/method.ts";
import type { PaymentProtocol } from "../../x402/protocols/protocol.ts";
import type { SettlementSummary, UnpaidRequest } from "../../x402/purchase/checkout.ts";
import { PaymentRefusal } from "../../x402/purchase/refused-payments.ts";
import { type Challenge, challengeHeader } from "./challenges.ts";
import type { MppProtocol } from "./mpp-protocol.ts";

/** The paid route with both protocols: each answers its own payments, and every 402 has the offers of both. */
export class CombinedProtocol implements PaymentProtocol {
  readonly #x402: PaymentProtocol;
  readonly #mpp: MppProtocol;
  readonly bindsBody = true;

  constructor({ x402, mpp }: { readonly x402: PaymentProtocol; readonly mpp: MppProtocol }) {
    this.#x402 = x402;
    this.#mpp = mpp;
  }

  carriesPayment(request: HttpRequest): boolean {
    return this.#mpp.carriesPayment(request) || this.#x402.carriesPayment(request);
  }

  readPayment(request: HttpRequest): SignedPayment | undefined {
    if (this.#mpp.carriesPayment(request) && this.#x402.carriesPayment(request)) {
      throw new GatewayError(
        "invalid_payment",
        "The request carries an x402 payment and an MPP credential: send one of them. Nothing was charged.",
      );
    }
    return this.#protocolOf(request).readPayment(request);
  }

  async paymentRequired(request: HttpRequest, unpaid: UnpaidRequest): Promise<HttpResponse> {
    const answer = await this.#x402.paymentRequired(request, unpaid);
    if (!acceptsCharge(request)) return answer;
    return withChallenges(answer, this.#mpp.challengesFor(unpaid));
  }

  acceptedHeaders(request: HttpRequest, summary: SettlementSummary): Readonly<Record<string, string>> {
    return this.#protocolOf(request).acceptedHeaders(request, summary);
  }

  async refuse(request: HttpRequest, job: JobKey, refusal: GatewayError): Promise<HttpResponse> {
    const protocol = this.#protocolOf(request);
    const answer = await protocol.refuse(request, job, refusal);
    if (protocol === this.#mpp || !(refusal instanceof PaymentRefusal)) return answer;
    return withChallenges(answer, this.#mpp.challengesFor(refusal));
  }

  #protocolOf(request: HttpRequest): PaymentProtocol {
    return this.#mpp.carriesPayment(request) ? this.#mpp : this.#x402;
  }
}

function withChallenges(answer: HttpResponse, challenges: readonly Challenge[]): HttpResponse {
  if (challenges.length === 0) return answer;
  return { ...answer, headers: { ...answer.headers, "www-authenticate": challenges.map(challengeHeader) } };
}

/** Returns true if `Accept-Payment` allows `evm/charge`. A request without the header accepts everything. */
function acceptsCharge(request: HttpRequest): boolean {
  const ranges = request.headerValues("accept-payment").join(",").toLowerCase();
  if (ranges.trim() === "") return true;
  return ranges.split(",").some((range) => {
    const [name = "", ...parameters] = range.split(";").map((part) => part.trim());
    const isRefused = parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
    return /^(evm|\*)\/(charge|\*)$/.test(name) && !isRefused;
  });
}
