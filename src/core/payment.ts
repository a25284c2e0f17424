import type { JobKey } from "./job-call.ts";

/**
 * Key of a payment. The key is unique on its chain, because a token accepts each nonce of a payer once. All parts are
 * in {@link oneSpelling}, so that a payment in another letter case has the same key.
 */
export interface PaymentKey {
  /** CAIP-2. */
  readonly network: string;
  /** Token address. */
  readonly asset: string;
  /** Address whose money moves. */
  readonly payer: string;
  /** Nonce in the spelling of the transfer method. EIP-3009: 32 bytes as hex with `0x`. */
  readonly nonce: string;
}

/**
 * Returns the one spelling of an address, a nonce or a transaction. Hexadecimal text begins with `0x`, and its letter
 * case has no meaning. In other encodings, such as base58, the letter case is part of the value.
 */
export function oneSpelling(text: string): string {
  return /^0x/i.test(text) ? text.toLowerCase() : text;
}

/** Returns a key whose parts are in {@link oneSpelling}, as stores write and compare keys. */
export function normalKey({ network, asset, payer, nonce }: PaymentKey): PaymentKey {
  return { network, asset: oneSpelling(asset), payer: oneSpelling(payer), nonce: oneSpelling(nonce) };
}

/** Name that a payer gave a purchase. jobgate accepts one of the payments that the payer signs for the purchase. */
export interface PurchaseName {
  /** Spelled as {@link oneSpelling} returns it. */
  readonly payer: string;
  /** The name is compared byte for byte. */
  readonly name: string;
}

/**
 * Time and amount of a payment's charge:
 * - `before`: the whole amount, before the job runs.
 * - `after`: the whole amount, once the job has succeeded.
 * - any other value, which a part of the build defines: the amount that the runner names, up to the whole, once the job has
 *   succeeded.
 */
export type ChargeKind = string;

/** Returns true for a charge whose amount the runner names. */
export function isPartial(charge: ChargeKind): boolean {
  return charge !== "before" && charge !== "after";
}

/**
 * Values that parts read from headers of a paid request, by the name of the header. The store keeps them with the payment,
 * and the payment is bound to them.
 */
export type PurchaseNotes = Readonly<Record<string, string | undefined>>;

/** A payment that passed every check and is about to be settled. Stored before the money moves. */
export interface PaymentIntent extends JobKey {
  readonly key: PaymentKey;
  /** Digest of the whole signed payment, which distinguishes payments with the same key. */
  readonly fingerprint: string;
  /** Name that the payer gave the purchase. At most one payment of the purchase is or can be charged. */
  readonly purchaseName?: string | undefined;
  /** SHA-256 in hex of the request body, or of the whole request at a job's own route. Binds the payment to the request. */
  readonly bodyHash: string;
  /**
   * Names of the headers that `bodyHash` covers, sorted and joined by commas. Undefined if it covers only the body, because
   * the job was bought at its IDs.
   */
  readonly boundHeaders?: string | undefined;
  /** Protocol version of the client. Answers to the client have the same version. */
  readonly x402Version: number;
  /** JSON of the payment payload, as the facilitator gets it. */
  readonly payload: string;
  /** JSON of the payment requirements, as the facilitator gets them. Undefined if they equal the payload's `accepted`. */
  readonly requirements?: string | undefined;
  /** Name of the transfer method. */
  readonly transferMethod: string;
  /** Name of the facilitator that the payment is sent to. Undefined if the chain already shows the payment. */
  readonly facilitator?: string | undefined;
  readonly payTo: string;
  /** Token units, decimal. */
  readonly amount: string;
  /** Token symbol, for people. */
  readonly symbol: string;
  /** Price of the job: wei in decimal, or dollars such as `$0.01`. */
  readonly price: string;
  /** Whole tokens for one unit of the price's currency, and the token's decimals. */
  readonly rate: string;
  readonly decimals: number;
  /** Unix seconds after which the authorization can no longer be used. */
  readonly validBefore: number;
  /** Digest of the price, 64 hex digits. Payments at one price can share it. */
  readonly receipt: string;
  /** Head of the token's chain when the intent was written. The search for the settlement starts at this block. */
  readonly fromBlock?: string | undefined;
  /** Nonces that this payment uses up in addition to its own. Never empty. */
  readonly oneTimeNonces?: readonly OneTimeNonce[] | undefined;
  /** Name of the promise to the buyer of a job that fails. Undefined if the seller keeps the money. */
  readonly onFailure?: string | undefined;
  /** The JobCall of a payment that is not charged `before` runs before any money moves. */
  readonly charge: ChargeKind;
  readonly notes?: PurchaseNotes | undefined;
  /**
   * Minimum charge for a job that still runs when the authorization is about to end. Set only for a new payment whose amount
   * the runner names.
   */
  readonly minCharge?: string | undefined;
  /**
   * The payment is charged `before`, and its method charges back what the JobCall does not use of the amount. Undefined if
   * the method charges nothing back.
   */
  readonly chargesBack?: true | undefined;
  /**
   * JSON of the settlement response of a payment that is paid by its journal entry alone. Such a payment begins
   * settled, with its JobCall in the queue. Other payments have no such settlement.
   */
  readonly settlement?: string | undefined;
}

/** Returns true if runners can get the JobCall of a payment as soon as the payment is in the journal. */
export function beginsReady({ charge, settlement }: Pick<PaymentIntent, "charge" | "settlement">): boolean {
  return charge !== "before" || settlement !== undefined;
}

/** Returns the largest part of its payment that a JobCall can use; null if the whole amount is always charged. */
export function ceilingOf({
  charge,
  chargesBack,
  amount,
}: Pick<PaymentIntent, "charge" | "chargesBack" | "amount">): string | null {
  return charge === "before" && chargesBack !== true ? null : amount;
}

/** A promise to the buyer of a job that fails. A part of the build keeps the promise. */
export interface FailurePromise {
  readonly name: string;
  /** A sentence for buyers. */
  readonly text: string;
}

/** A nonce that can be used once, with a payment or without one. It is kept until it expires. */
export interface OneTimeNonce {
  /** The nonce with the scope in which it is unique. Compared byte for byte. */
  readonly key: string;
  /** Unix seconds; once passed, the nonce may be forgotten. */
  readonly expiresAt: number;
  /**
   * The charge, and not the run, uses up the nonce. The nonce is free again once the payment has failed, even if the
   * job ran.
   */
  readonly isOfCharge?: true;
}

/**
 * - `intent`: settlement was or may have been requested; not decided yet.
 * - `settled`: paid. Its JobCall is in the queue, or has left the queue.
 * - `failed`: not paid. If the chain shows otherwise while the JobCall is still kept, the payment is settled after all.
 * - `unresolved`: jobgate cannot find out more; the operator decides.
 *
 * Payments that are not charged `before` begin as `authorized` instead of `intent`, and their JobCall is in the queue
 * from then on:
 * - `authorized`: the job is not finished, and nothing has moved.
 * - `settling`: the charge is known; settlement was or may have been requested.
 * - `released`: nothing is charged. The authorization lapses.
 */
export type PaymentState =
  | "intent"
  | "settled"
  | "failed"
  | "unresolved"
  | "authorized"
  | "settling"
  | "released";

/** Money that the authorization of a payment moved before its charge, or without a charge. */
export interface MovedElsewhere {
  /** Token units, decimal. */
  readonly amount: string;
  readonly transaction: string;
  /** One-line description for people. */
  readonly reason: string;
}

/** Reads the money that moved elsewhere from the settlement of a payment. */
export function movedElsewhere(settlement: string | undefined): MovedElsewhere | undefined {
  if (settlement === undefined) return undefined;
  const {
    success,
    transaction,
    amount,
    errorMessage = "",
  } = JSON.parse(settlement) as {
    readonly success?: boolean;
    readonly transaction?: string;
    readonly amount?: string;
    readonly errorMessage?: string;
  };
  if (success !== false || !transaction || amount === undefined) return undefined;
  return { amount, transaction, reason: errorMessage };
}

/**
 * Reads the transaction from the settlement of a payment.
 * @returns undefined if the settlement names no transaction
 */
export function transactionOf(settlement: string | undefined): string | undefined {
  if (settlement === undefined) return undefined;
  const { transaction } = JSON.parse(settlement) as { readonly transaction?: unknown };
  return typeof transaction === "string" && transaction !== "" ? transaction : undefined;
}

/**
 * Returns a payment with the amount that its authorization can move. A payment that is charged `after` its job, and was
 * released, has the amount 0.
 */
export function asAuthorized(record: PaymentRecord): PaymentRecord {
  const { charge, ceiling, amount } = record;
  return charge === "after" ? { ...record, amount: ceiling ?? amount } : record;
}

/** States that a payment does not begin in. */
export type DecidedState = Exclude<PaymentState, "intent" | "authorized">;

/** An operator's decision about a payment that jobgate could not decide. */
export interface PaymentClosing {
  readonly as: "paid" | "not_paid";
  /** Name of the operator, as the request gives it. */
  readonly by: string;
  readonly note: string;
}

/** Describes a closing in one line, for people. */
export function closingText({ as, by, note }: PaymentClosing): string {
  return `closed as ${as === "paid" ? "paid" : "not paid"} by ${by}: ${note}`;
}

export interface PaymentRecord extends PaymentIntent {
  readonly state: PaymentState;
  readonly callId: number;
  /**
   * Largest amount that can be charged; undefined for a payment that is charged `before`. `amount` equals the ceiling until
   * the charge is known, and then equals the charge.
   */
  readonly ceiling: string | undefined;
  /** Reason for the state, for the operator. */
  readonly reason?: string | undefined;
  /** Set if an operator decided the payment, with the time in Unix milliseconds. */
  readonly closed?: (PaymentClosing & { readonly at: number }) | undefined;
  /** Unix milliseconds. */
  readonly createdAt: number;
  /** Unix milliseconds. */
  readonly updatedAt: number;
}

/** Bounds for a charge after the job if signed payments expire soon. */
export interface SoonEnd {
  /** Longest run of a job whose payment is charged after the run. */
  readonly maxRunSecs: number;
  /** Time before the payment expires at which a job that still runs is charged or ended. */
  readonly marginSecs: number;
}

/** Facts about a transfer method: how a payment moves its token. */
export interface TransferMethod {
  /** Name in configurations, offers and stored payments. */
  readonly name: string;
  /** Name for people. */
  readonly title: string;
  /** An authorization can be charged less than the signed value. */
  readonly chargesPart?: true | undefined;
  /** Set if a signed payment expires soon. Undefined if it is valid for as long as its offer asks. */
  readonly endsSoon?: SoonEnd | undefined;
  /** The token itself checks the payers' signatures, under its EIP-712 domain, which the configuration has to state. */
  readonly isOfToken?: true;
}

/** The transfer method of the core. Offers of x402 do not name it. */
export const EIP3009: TransferMethod = {
  name: "eip3009",
  title: "EIP-3009",
  isOfToken: true,
};

/** Outcome of the transaction of a transfer from an account of jobgate. */
export type TransferEnd =
  | {
      readonly state: "sent";
      readonly transaction: string;
      readonly blockNumber: string;
      /** Account that sent the money. */
      readonly account: string | null;
    }
  /** The transaction has moved nothing and never will. */
  | { readonly state: "failed"; readonly reason: string; readonly transaction?: string }
  /** jobgate can no longer find out the outcome of the transaction, so the operator states whether it moved money. */
  | { readonly state: "lost"; readonly reason: string; readonly transaction: string }
  /** The transaction was never signed, so it can be queued again. Without a reason, the account was short of tokens. */
  | { readonly state: "unsigned"; readonly reason?: string };
