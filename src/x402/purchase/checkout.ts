import type { CallbackGuard } from "../../core/callbacks.ts";
import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { JobRequest } from "../../http/request.ts";
import type { SoldPolicy } from "../prices/job-policies.ts";
import type { PriceBook } from "../prices/price-book.ts";
import type { PaymentOutcome } from "../settlement/payment-outcome.ts";
import type { Offer } from "../wire/offer.ts";
import { requireNoQuery } from "../wire/paths.ts";
import type { SignedPayment } from "../wire/payment-header.ts";
import type { ClientLimits } from "./client-limits.ts";
import type { InputChecks } from "./input-checks.ts";
import type { AcceptedPayment, Purchase } from "./purchase.ts";

/** Reads payments in one protocol. It only translates: what follows is the same through every door. */
export interface PaymentReader {
  /** Reports whether a request carries a payment, well-formed or not. */
  carriesPayment(request: JobRequest): boolean;
  /** @returns undefined when the request carries none @throws GatewayError `invalid_payment` */
  readPayment(request: JobRequest): SignedPayment | undefined;
}

/** Outcome of a request that is not refused. */
type Sale =
  | { readonly kind: "bought"; readonly payment: AcceptedPayment }
  | { readonly kind: "unpaid"; readonly unpaid: UnpaidRequest };

/** A request without a payment, and the offers that it can pay. */
export interface UnpaidRequest {
  readonly job: SoldPolicy;
  /** Undefined in a request that buys nothing. */
  readonly body: Uint8Array | undefined;
  readonly offers: readonly Offer[];
}

/** Settlement of a payment, as a door tells its client. */
export type ToldSettlement = Pick<
  Extract<PaymentOutcome, { kind: "accepted" }>,
  "settlement" | "takenAt" | "replayed" | "extensionResponses"
>;

/** The way from a request to its purchase, in the order of refusals that clients of every door rely on. */
export class Checkout {
  readonly #prices: PriceBook;
  readonly #inputs: InputChecks;
  readonly #callbacks: CallbackGuard | undefined;
  readonly #purchase: Purchase;
  readonly #limits: ClientLimits;
  readonly #maxBodyBytes: number;

  constructor(parts: {
    readonly prices: PriceBook;
    readonly inputs: InputChecks;
    /** Absent: buyers cannot give a URL. */
    readonly callbacks?: CallbackGuard | undefined;
    readonly purchase: Purchase;
    readonly limits: ClientLimits;
    readonly maxBodyBytes: number;
  }) {
    this.#prices = parts.prices;
    this.#inputs = parts.inputs;
    this.#callbacks = parts.callbacks;
    this.#purchase = parts.purchase;
    this.#limits = parts.limits;
    this.#maxBodyBytes = parts.maxBodyBytes;
  }

  /** The comments name the refusals of each step. {@link Purchase.buy} continues. @throws GatewayError */
  async buy(request: JobRequest, job: JobKey, door: PaymentReader): Promise<Sale> {
    // query_not_allowed
    requireNoQuery(request);
    // job_not_found, x402_disabled, price_unavailable; quote_not_found, quote_mismatch
    const price = await this.#prices.find(request, job);
    // body_too_large
    const body = await request.readBody(this.#maxBodyBytes);
    const callback = readCallbackUrl(request, this.#callbacks);
    const invalidInput = this.#inputs.refusalOf(job, body) ?? callback.refusal;
    // invalid_payment; with a wrong body or URL, only a payment that may have bought it under earlier rules counts
    const payment = invalidInput === undefined ? door.readPayment(request) : readable(request, door);
    if (payment !== undefined) {
      const { url: callbackUrl } = callback;
      const bought = await this.#purchase.buy({ request, price, body, payment, callbackUrl, invalidInput });
      return { kind: "bought", payment: bought };
    }
    // invalid_input, invalid_callback_url, rate_limited
    if (invalidInput !== undefined) return this.#limits.refuseUnpaid(request, invalidInput);
    // rate_limited
    this.#limits.countUnpaid(request);
    return { kind: "unpaid", unpaid: { job: price.policy, body, offers: await price.offers(body) } };
  }

  /** Returns the offers that anyone can pay now, for a request that buys nothing. @throws GatewayError */
  async show(request: JobRequest, job: JobKey): Promise<UnpaidRequest> {
    requireNoQuery(request);
    // A signed quote is for one body, so it has no place here.
    const price = await this.#prices.findCurrent(job);
    this.#limits.countUnpaid(request);
    return { job: price.policy, body: undefined, offers: await price.offers(new Uint8Array()) };
  }
}

/** Reads where the buyer wants to be told how his call ended. With a refusal, `url` is the text that was sent. */
function readCallbackUrl(
  request: JobRequest,
  guard: CallbackGuard | undefined,
): { readonly url?: string; readonly refusal?: GatewayError } {
  const values = request.headerValues("callback-url");
  const url = values.join(", ");
  if (values.length === 0) return {};
  const parsed = guard?.parse(url) ?? { problem: "is not possible here: nobody is called back" };
  if ("url" in parsed) return parsed;
  const problem = values.length > 1 ? "was sent more than once" : parsed.problem;
  return {
    url,
    refusal: new GatewayError("invalid_callback_url", `Callback-URL ${problem}. Nothing was charged.`),
  };
}

/** Reads the payment of a request; undefined also for one that cannot be read. */
function readable(request: JobRequest, door: PaymentReader): SignedPayment | undefined {
  try {
    return door.readPayment(request);
  } catch (error) {
    if (error instanceof GatewayError) return undefined;
    throw error;
  }
}
