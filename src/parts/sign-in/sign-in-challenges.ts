import { randomBytes } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import { equalInConstantTime } from "../../core/constant-time.ts";
import { GatewayError } from "../../core/errors.ts";
import type { AccessTokens, ProofPurpose } from "../../x402/calls/access-tokens.ts";
import type { SignInChallenge } from "./sign-in-message.ts";

/** Time limit for signing a challenge. */
export const LIFETIME_MS = 5 * 60_000;
/** Tolerated difference between the clocks of replicas. */
const MAX_SKEW_MS = 60_000;
/** Characters of 16 bytes in hex. A nonce has two such halves: random bytes, and the seal. */
const HALF = 32;

/** Makes and recognises challenges. Each challenge is sealed, so that jobgate need not store it before it is used. */
export class SignInChallenges {
  readonly #tokens: Pick<AccessTokens, "seal">;
  readonly #clock: Clock;
  /** Host of the gateway. */
  readonly #domain: string;

  constructor(parts: {
    readonly tokens: Pick<AccessTokens, "seal">;
    readonly clock: Clock;
    readonly publicUrl: string;
  }) {
    this.#tokens = parts.tokens;
    this.#clock = parts.clock;
    this.#domain = new URL(parts.publicUrl).host;
  }

  make(purpose: ProofPurpose): SignInChallenge {
    const now = this.#clock();
    const times = {
      issuedAt: new Date(now).toISOString(),
      expirationTime: new Date(now + LIFETIME_MS).toISOString(),
    };
    const chance = randomBytes(HALF / 2).toString("hex");
    return { ...this.#fixed(purpose), nonce: chance + this.#seal(chance, times, purpose), ...times };
  }

  /**
   * Checks that jobgate made a challenge for a purpose, and that the challenge has not expired.
   * @throws GatewayError `signature_mismatch`, `signature_expired`
   */
  check(challenge: SignInChallenge, purpose: ProofPurpose): void {
    const { nonce, issuedAt, expirationTime } = challenge;
    const fixed = this.#fixed(purpose);
    const mismatch = (what: string) =>
      new GatewayError("signature_mismatch", `${what} Sign the challenge of ${purpose.challengeOf}.`);
    if (challenge.domain !== fixed.domain || challenge.uri !== fixed.uri)
      throw mismatch(`The message is not for ${fixed.uri}: never sign what another site shows you.`);
    const seal = this.#seal(nonce.slice(0, HALF), { issuedAt, expirationTime }, purpose);
    const isOwn = equalInConstantTime(nonce.slice(HALF), seal);
    if (!isOwn || challenge.version !== fixed.version || challenge.statement !== fixed.statement)
      throw mismatch("The challenge was not made by this jobgate, or was changed.");
    const now = this.#clock();
    if (Date.parse(issuedAt) > now + MAX_SKEW_MS) throw mismatch("The challenge is from the future.");
    if (Date.parse(expirationTime) <= now)
      throw new GatewayError("signature_expired", "The challenge has expired: sign a new one.");
  }

  #fixed({ url: uri, statement }: ProofPurpose) {
    return { domain: this.#domain, uri, version: "1", statement };
  }

  #seal(
    chance: string,
    times: Pick<SignInChallenge, "issuedAt" | "expirationTime">,
    { url, statement }: ProofPurpose,
  ): string {
    const sealed = ["sign-in", chance, times.issuedAt, times.expirationTime, url, statement];
    const seal = this.#tokens.seal(sealed.join("\n"));
    // Hex, because a nonce may have only letters and digits.
    return Buffer.from(seal, "base64url").toString("hex").slice(0, HALF);
  }
}
