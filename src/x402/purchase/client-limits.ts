import type { X402Config } from "../../config/config.ts";
import type { GatewayError } from "../../core/errors.ts";
import { type AddressedRequest, type AddressFinder, createAddressFinder } from "../../http/client-address.ts";
import { RateLimit, rateLimited } from "../../http/rate-limit.ts";

/** Wrong access tokens that one client may send in a window. */
const MAX_WRONG_TOKENS = 20;
const WRONG_TOKEN_WINDOW_SECS = 10;

/**
 * Limits on the work that one client can cause without paying. Its counts outlive a reload: otherwise every reload
 * would grant each client its whole limit again.
 */
export class ClientLimits {
  readonly #unpaid = new RateLimit();
  readonly #wrongTokens = new RateLimit(WRONG_TOKEN_WINDOW_SECS);
  readonly #verifying = new Map<string, number>();
  #totalVerifying = 0;
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

  /** Refuses a request that nobody pays for, and counts it. @throws GatewayError the refusal, or `rate_limited` */
  refuseUnpaid(request: AddressedRequest, refusal: GatewayError): never {
    this.countUnpaid(request);
    throw refusal;
  }

  /**
   * Counts a wrong access token. The right one is never counted or refused: its holder may share an address with
   * somebody who guesses.
   * @throws GatewayError `rate_limited`
   */
  countWrongToken(request: AddressedRequest): void {
    this.#wrongTokens.count(this.clientOf(request), MAX_WRONG_TOKENS, "Too many wrong access tokens");
  }

  /** Runs a verification if the client and the facilitator have room for one more. @throws GatewayError `rate_limited` */
  async whileVerifying<Result>(request: AddressedRequest, verify: () => Promise<Result>): Promise<Result> {
    const client = this.clientOf(request);
    const { maxVerifiesPerClient, maxVerifies } = this.#limits;
    const ofClient = this.#verifying.get(client) ?? 0;
    if (ofClient >= maxVerifiesPerClient || this.#totalVerifying >= maxVerifies) {
      throw rateLimited("Too many payments are being verified at once. Nothing was charged", 1_000);
    }
    this.#verifying.set(client, ofClient + 1);
    this.#totalVerifying++;
    try {
      return await verify();
    } finally {
      this.#totalVerifying--;
      const left = (this.#verifying.get(client) ?? 1) - 1;
      if (left === 0) this.#verifying.delete(client);
      else this.#verifying.set(client, left);
    }
  }

  /** Returns the client's address. Clients whose address the proxy does not send share the proxy's limit. */
  clientOf(request: AddressedRequest): string {
    return this.#addressOf(request) ?? request.remoteAddress;
  }
}
