import { createHmac, randomBytes } from "node:crypto";
import { equalInConstantTime } from "../../core/constant-time.ts";
import type { PaymentKey } from "../../core/payment.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { SecretKeeper } from "../../store/contract/call-lookup.ts";
import type { JobDescription } from "../wire/offer.ts";

const SECRET_NAME = "access_token";
const SECRET_BYTES = 32;

/**
 * Bearer tokens that give a buyer access to a paid call. Each token is derived from the call's payment and the store's
 * secret. The token is therefore the same after a resend, after a restart and at another replica. The token cannot be
 * computed from public data.
 */
export class AccessTokens {
  readonly #secrets: SecretKeeper;
  #secret: Buffer | undefined;

  constructor(secrets: SecretKeeper) {
    this.#secrets = secrets;
  }

  /** Reads the secret, or makes it in a new store. Must resolve before the other methods are called. */
  async load(): Promise<void> {
    const candidate = randomBytes(SECRET_BYTES).toString("hex");
    this.#secret = Buffer.from(await this.#secrets.keepSecret(SECRET_NAME, candidate), "hex");
  }

  /** Returns the token of a payment: 43 base64url characters. */
  tokenOf({ network, asset, payer, nonce }: PaymentKey): string {
    if (this.#secret === undefined) throw new Error("the secret of the access tokens is not loaded");
    const key = [network, asset, payer, nonce].join("\n").toLowerCase();
    return createHmac("sha256", this.#secret).update(key).digest("base64url");
  }

  /** Returns a seal that only holders of the secret can make, for texts that clients keep. */
  seal(text: string): string {
    if (this.#secret === undefined) throw new Error("the secret of the access tokens is not loaded");
    return createHmac("sha256", this.#secret).update(`seal\n${text}`).digest("base64url");
  }

  /** Compares the tokens in constant time. */
  isTokenOf(token: string, payment: PaymentKey): boolean {
    return equalInConstantTime(token, this.tokenOf(payment));
  }
}

/**
 * A payer with a verified identity. The proof is valid for one network, because on another network the contract at the
 * payer's address may belong to another account.
 */
export interface ProvenPayer {
  /** Address, in the spelling of `oneSpelling` (core/payment.ts). */
  readonly payer: string;
  /** CAIP-2. */
  readonly network: string;
  /** True if the account's own key signed, so that the proof is valid on every network. */
  readonly isByKey: boolean;
}

/** Purpose of a proof. A proof for one purpose is invalid for any other. */
export interface ProofPurpose {
  readonly url: string;
  /** Sentence that the payer signs. */
  readonly statement: string;
  /** Completes "Sign the challenge of …". */
  readonly challengeOf: string;
}

/** Recognises payers who do not have the access token of their call. */
export interface PayerProof {
  /** Advice to such a payer, as the end of a sentence. */
  readonly advice: string;
  /** Returns true if a request carries a proof, well-formed or not. */
  isIn(request: HttpRequest): boolean;
  /**
   * Uses up the proof.
   * @param purpose default: reading the payer's own calls
   * @throws GatewayError for an invalid proof, and `rate_limited`
   */
  payerOf(request: HttpRequest, purpose?: ProofPurpose): Promise<ProvenPayer>;
  /** Returns the extensions of a 402 that let a payer make a proof for a purpose. */
  challengeFor(purpose: ProofPurpose): JobDescription["extensions"];
}
