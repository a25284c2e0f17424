import type { Rpc } from "../../chain/rpc.ts";
import type { PaymentIntent } from "../../core/payment.ts";
import type { MinedLog } from "./chain-logs.ts";

/** Parts of a payment that identify the use of its authorization. Without `fromBlock`, a search starts at the head. */
export type AuthorizedPayment = Pick<
  PaymentIntent,
  "key" | "transferMethod" | "fingerprint" | "payload" | "payTo" | "amount" | "validBefore" | "fromBlock"
>;

/**
 * The authorization that pays a payment, as its chain shows it. Transfer methods differ in the contract that keeps the
 * nonce, and in the traces that its use leaves. Code that is shared by all methods, such as views, searches and decisions,
 * uses this interface.
 */
export interface Authorization {
  readonly payment: AuthorizedPayment;
  /** Unix seconds from which the authorization can be used. */
  readonly validAfter: bigint;
  /** Unix seconds from which the authorization can no longer be used. */
  readonly endsAt: bigint;
  /** Contract that keeps the nonce, and the call that reads the nonce's state. The result is one word. */
  readonly nonceCall: { readonly to: string; readonly data: string };
  /** True if a settling call can succeed without moving money when that contract is missing. */
  readonly needsContract: boolean;
  /** Reads the answer to {@link nonceCall}. @returns undefined if it is not a valid result */
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
  /** Returns true if a call of the contract with this input collects the payment. */
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
  /** The authorization was used, but not for the offered transfer. */
  | { readonly kind: "used_otherwise" }
  /** The transaction used several authorizations, and its logs do not show which transfer belongs to which authorization. */
  | { readonly kind: "ambiguous" }
  /** The transaction used the authorization. Its other logs were not read yet, or the chain no longer has them. */
  | { readonly kind: "unread"; readonly transaction: string };

/** The nonce is used, and the RPC's data does not show how. The message continues "its nonce is used, but". */
export class Unexplained extends Error {
  override readonly name = "Unexplained";
}
