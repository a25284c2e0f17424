import type { HttpRequest } from "../../http/request.ts";
import type { JobDescription } from "../wire/offer.ts";

/**
 * A payer who proved who it is. The proof holds for one network: on another, the contract at the payer's address may be
 * another account's.
 */
export interface ProvenPayer {
  /** Lower case. */
  readonly payer: string;
  /** CAIP-2. */
  readonly network: string;
  /** True if the account's own key signed, so that the proof holds on every network. */
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
  /** Reports whether a request carries a proof, well-formed or not. */
  isIn(request: HttpRequest): boolean;
  /**
   * Uses up the proof.
   * @param purpose default: reading the payer's own calls
   * @throws GatewayError for a proof that does not hold, and `rate_limited`
   */
  payerOf(request: HttpRequest, purpose?: ProofPurpose): Promise<ProvenPayer>;
  /** Returns the extensions of a 402 that let a payer make a proof for a purpose. */
  challengeFor(purpose: ProofPurpose): JobDescription["extensions"];
}
