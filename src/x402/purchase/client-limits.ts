import type { X402Limits } from "../../config/config.ts";
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
  #limits: X402Limits;

  constructor(limits: X402Limits) {
    this.#limits = limits;
  }

  reload(limits: X402Limits): void {
    this.#limits = limits;
  }

  /** Counts a request that carries no payment. @throws GatewayError `rate_limited` */
  countUnpaid(clientAddress: string): Promise<void> {
    const { maxUnpaidPerSecondPerClient } = this.#limits;
    return this.#unpaid.count(
      clientAddress,
      maxUnpaidPerSecondPerClient,
      "Too many requests without a payment. Nothing was charged",
    );
  }

  /**
   * Counts a wrong access token. The right one is never counted or refused: its holder may share an address with
   * somebody who guesses.
   * @throws GatewayError `rate_limited`
   */
  countWrongToken(clientAddress: string): Promise<void> {
    return this.#wrongTokens.count(clientAddress, MAX_WRONG_TOKENS, "Too many wrong access tokens");
  }

  /** Runs a verification if the client and the facilitator have room for one more. @throws GatewayError `rate_limited` */
  async whileVerifying<Result>(clientAddress: string, verify: () => Promise<Result>): Promise<Result> {
    const { maxVerifiesPerClient, maxVerifies } = this.#limits;
    const ofClient = this.#verifying.get(clientAddress) ?? 0;
    if (ofClient >= maxVerifiesPerClient || this.#totalVerifying >= maxVerifies) {
      throw rateLimited("Too many payments are being verified at once. Nothing was charged", 1_000);
    }
    this.#verifying.set(clientAddress, ofClient + 1);
    this.#totalVerifying++;
    try {
      return await verify();
    } finally {
      this.#totalVerifying--;
      const left = (this.#verifying.get(clientAddress) ?? 1) - 1;
      if (left === 0) this.#verifying.delete(clientAddress);
      else this.#verifying.set(clientAddress, left);
    }
  }
}
