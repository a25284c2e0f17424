import type { Rpc } from "../../chain/rpc.ts";
import type { PaymentIntent } from "../../core/payment.ts";
import type { MinedLog } from "./chain-logs.ts";

/** Parts of a payment that identify the use of its authorization. Without `fromBlock`, a search starts at the head. */
export type AuthorizedPayment = Pick<
  PaymentIntent,
  "key" | "transferMethod" | "fingerprint" | "payload" | "payTo" | "amount" | "validBefore" | "fromBlock"
>;

/**
 * The authorization that pays a payment, as its chain shows it. Transfer methods differ in who keeps the nonce, and in the
 * marks that its use leaves. What is the same for all, such as views, searches and decisions, uses this interface.
 */
export interface Authorization {
  readonly payment: AuthorizedPayment;
  /** Unix seconds from which on it can be used. */
  readonly validAfter: bigint;
  /** Unix seconds from which on it can no longer be used. */
  readonly endsAt: bigint;
  /** Contract that keeps the nonce, and the call that asks for it. The answer is one word. */
  readonly nonceCall: { readonly to: string; readonly data: string };
  /** A call that settles can succeed and move nothing where that contract is missing. */
  readonly needsContract: boolean;
  /** Reads the answer to {@link nonceCall}. @returns undefined when it is no answer to it */
  isUsed(answer: bigint): boolean | undefined;
  /** Filters of `eth_getLogs` for the logs among which {@link useAmong} finds the use. */
  readonly logFilters: readonly { readonly address: string; readonly topics: readonly unknown[] }[];
  /** Finds the use in some logs. @throws Unexplained */
  useAmong(rpc: Rpc, logs: readonly MinedLog[]): Promise<NonceUse | undefined>;
  /** Finds the use in a transaction. @throws Unexplained */
  useIn(rpc: Rpc, transaction: string): Promise<NonceUse | undefined>;
  /**
   * Finds the use by the state of the blocks up to `head`, for a method whose use no log names.
   * @returns undefined when the RPC does not have that state, or the nonce was used before the payment's start block
   * @throws Unexplained
   */
  findUseByState?(rpc: Rpc, head: bigint): Promise<NonceUse | undefined>;
}

/** A contract that collects payments by a method for another method, such as deposits in payment channels. */
export interface Collector {
  /** Contract that emits an event in each call that collects. Lower case. */
  readonly contract: string;
  /** Reports whether a call of the contract with this input collects the payment. */
  collects(input: string): boolean;
}

/** The block that used up a nonce, and how. */
export interface NonceUse {
  readonly blockNumber: bigint;
  readonly blockHash: string;
  readonly outcome: UseOutcome;
}

export type UseOutcome =
  /** The transaction used the authorization and made the offered transfer, or moved another `amount` of a ceiling. */
  | { readonly kind: "paid"; readonly transaction: string; readonly amount?: string }
  | { readonly kind: "cancelled" }
  /** It was used, and not for the offered transfer. */
  | { readonly kind: "used_otherwise" }
  /** The transaction used several authorizations, and its logs do not show which transfer is whose. */
  | { readonly kind: "ambiguous" }
  /** The transaction used it. Its other logs were not read yet, or the chain no longer has them. */
  | { readonly kind: "unread"; readonly transaction: string };

/** The nonce is used, and what the RPC shows does not tell how. The message continues "its nonce is used, but". */
export class Unexplained extends Error {
  override readonly name = "Unexplained";
}
