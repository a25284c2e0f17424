import type { X402Config } from "../../config/config.ts";
import type { GatewayError } from "../../core/errors.ts";
import { RateLimit, WorkLimit } from "../../http/limits.ts";
import { type AddressedRequest, type AddressFinder, createAddressFinder } from "../../http/request.ts";

/** Wrong access tokens that one client may send in a window. */
const MAX_WRONG_TOKENS = 20;
const WRONG_TOKEN_WINDOW_SECS = 10;

/**
 * Limits on the work that one client can cause without paying. Its counts outlive a reload, because otherwise every
 * reload would grant each client its whole limit again.
 */
export class ClientLimits {
  readonly #unpaid = new RateLimit();
  readonly #wrongTokens = new RateLimit(WRONG_TOKEN_WINDOW_SECS);
  readonly #verifying = new WorkLimit();
  #limits: X402Config["limits"];
  #addressOf: AddressFinder;

  constructor({ limits, trustedProxies = [] }: Pick<X402Config, "limits" | "trustedProxies">) {
    this.#limits = limits;
    this.#addressOf = createAddressFinder(trustedProxies);
  }

  reload({ limits, trustedProxies = [] }: Pick<X402Config, "limits" | "trustedProxies">): void {
    this.#limits = limits;
    this.#addressOf = createAddressFinder(trustedProxies);
  }

  /** Counts a request that carries no payment. @throws GatewayError `rate_limited` */
  countUnpaid(request: AddressedRequest): void {
    const { maxUnpaidPerSecondPerClient } = this.#limits;
    this.#unpaid.count(
      this.clientOf(request),
      maxUnpaidPerSecondPerClient,
      "Too many requests without a payment. Nothing was charged",
    );
  }

  /** Refuses a request without a payment, and counts it. @throws GatewayError the refusal, or `rate_limited` */
  refuseUnpaid(request: AddressedRequest, refusal: GatewayError): never {
    this.countUnpaid(request);
    throw refusal;
  }

  /**
   * Counts a wrong access token. The right token is never counted or refused, because its holder may share an address with
   * a client that guesses.
   * @throws GatewayError `rate_limited`
   */
  countWrongToken(request: AddressedRequest): void {
    this.#wrongTokens.count(
      this.clientOf(request),
      MAX_WRONG_TOKENS,
      "Too many wrong keys, access tokens or sign-ins",
    );
  }

  /** Runs a verification if the client and the facilitator have room for one more. @throws GatewayError `rate_limited` */
  whileVerifying<Result>(request: AddressedRequest, verify: () => Promise<Result>): Promise<Result> {
    const { maxVerifiesPerClient: perClient, maxVerifies: total } = this.#limits;
    const reason = "Too many payments are being verified at once. Nothing was charged";
    return this.#verifying.run(this.clientOf(request), { perClient, total, reason }, verify);
  }

  /** Returns the client's address. Clients whose addresses a proxy does not send share the limit of the proxy. */
  clientOf(request: AddressedRequest): string {
    return this.#addressOf(request) ?? request.remoteAddress;
  }
}
