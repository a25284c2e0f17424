import type { AcceptedToken } from "../../config/config.ts";
import type { ChainPayment } from "./chain-payment.ts";

/** A token whose chain can be queried. */
export type ReadableToken = AcceptedToken & { readonly rpcUrl: string };

/** Transfer to a token's `pay_to`. */
export interface ReceivedTransfer {
  readonly token: AcceptedToken;
  /** Account that paid. Like {@link transaction}, it has one spelling. */
  readonly from: string;
  readonly amount: bigint;
  readonly transaction: string;
  readonly block: bigint;
}

/** The transaction made no payment that can be adopted. The message says why, and begins with "The transaction". */
export class NotPaid extends Error {
  override readonly name = "NotPaid";
}

/** Payments on the chain of one network, which a restored copy of the store may lack. */
export interface ChainHistory {
  /**
   * Reads the exact payments to tokens' `pay_to` that a transaction made, and that no fork can undo.
   * @param tokens at least one token of the network
   * @returns undefined if the chain does not have the transaction
   * @throws NotPaid
   * @throws Error when the chain cannot be queried, without the URL
   */
  paymentsIn(
    transaction: string,
    tokens: readonly [ReadableToken, ...ReadableToken[]],
  ): Promise<readonly ChainPayment[] | undefined>;
  /**
   * Reads the transfers to a token's `pay_to` that no fork can undo, oldest first.
   * @param since Unix milliseconds
   * @throws Error when the chain cannot be queried, without the URL
   */
  receivedSince(token: ReadableToken, since: number): Promise<readonly ReceivedTransfer[]>;
}
