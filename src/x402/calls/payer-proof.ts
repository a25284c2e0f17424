import type { HttpRequest } from "../../http/request.ts";

/**
 * A payer who proved who it is. The proof holds for one network: on another, the contract at the payer's address may be
 * another account's.
 */
export interface ProvenPayer {
  /** Lower case. */
  readonly payer: string;
  /** CAIP-2. */
  readonly network: string;
}

/** Recognises payers who do not have the access token of their call. */
export interface PayerProof {
  /** Advice to such a payer, as the end of a sentence. */
  readonly advice: string;
  /** Reports whether a request carries a proof, well-formed or not. */
  isIn(request: HttpRequest): boolean;
  /** @throws GatewayError for a proof that does not hold, and `rate_limited` */
  payerOf(request: HttpRequest): Promise<ProvenPayer>;
}
