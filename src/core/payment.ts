import type { JobKey } from "./job-call.ts";

/**
 * Key of a payment, unique on its chain: a token lets one payer use one nonce once.
 * All parts are in {@link oneSpelling}, so that the same payment in another letter case is the same payment.
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
 * Returns the one spelling of an address, a nonce or a transaction. Letter case means nothing in hexadecimal, which begins
 * with `0x`. It is part of the value in other encodings, such as base58.
 */
export function oneSpelling(text: string): string {
  return /^0x/i.test(text) ? text.toLowerCase() : text;
}

/** Returns a key whose parts are in {@link oneSpelling}, as stores write and compare keys. */
export function normalKey({ network, asset, payer, nonce }: PaymentKey): PaymentKey {
  return { network, asset: oneSpelling(asset), payer: oneSpelling(payer), nonce: oneSpelling(nonce) };
}

/** Name that a payer gave a purchase. Of the payments that they sign for it, one is taken. */
export interface PurchaseName {
  /** Spelled as {@link oneSpelling} returns it. */
  readonly payer: string;
  /** Compared byte for byte. */
  readonly name: string;
}

/**
 * Time and amount of a payment's charge:
 * - `before`: the whole amount, before the job runs.
 * - `after`: the whole amount, once the job has succeeded.
 * - any other, which a part of the build names: the part of the amount that the runner says, once the job has succeeded.
 */
export type ChargeKind = string;

/** Returns true for a charge of the part of the amount that the runner says. */
export function isPartial(charge: ChargeKind): boolean {
  return charge !== "before" && charge !== "after";
}

/**
 * Values that parts read from headers of a paid request, by the name of the header. The store keeps them with the payment, and
 * they are part of what it pays for.
 */
export type PurchaseNotes = Readonly<Record<string, string | undefined>>;

/** A payment that passed every check and is about to be settled. Stored before the money moves. */
export interface PaymentIntent extends JobKey {
  readonly key: PaymentKey;
  /** Digest of the whole signed payment, which distinguishes payments with the same key. */
  readonly fingerprint: string;
  /** Name that the payer gave the purchase. Of its payments, at most one was charged or can be charged. */
  readonly purchaseName?: string | undefined;
  /**
   * SHA-256 of the request body, hex; at a job's own route, of the whole request. Binds the payment to what it pays for.
   */
  readonly bodyHash: string;
  /**
   * Names of the headers that `bodyHash` is of too, sorted and joined by commas. Absent: it is of the body alone, and the
   * job was bought at its ids.
   */
  readonly boundHeaders?: string | undefined;
  /** Protocol version of the client, used for its answers too. */
  readonly x402Version: number;
  /** JSON of the payment payload, as the facilitator gets it. */
  readonly payload: string;
  /** JSON of the payment requirements, as the facilitator gets them. Absent if they are the payload's `accepted`. */
  readonly requirements?: string | undefined;
  /** Name of the transfer method. */
  readonly transferMethod: string;
  /** Name of the facilitator that the payment is sent to. Absent for a payment that the chain already shows. */
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
  /** Digest of the price, 64 hex digits. Clients may share it that buy at one price. */
  readonly receipt: string;
  /** Head of the token's chain when the intent was written: the search for the settlement starts there. */
  readonly fromBlock?: string | undefined;
  /** Nonces beside the payment's own, used up with this payment. At least one, if present. */
  readonly oneTimeNonces?: readonly OneTimeNonce[] | undefined;
  /** Name of the promise to the buyer of a job that fails. Absent: the seller keeps the money. */
  readonly onFailure?: string | undefined;
  /** The JobCall of a payment that is not charged `before` runs before any money moves. */
  readonly charge: ChargeKind;
  readonly notes?: PurchaseNotes | undefined;
  /** Least that a running job is charged when the authorization is about to end. Only of a new payment that is charged in part. */
  readonly minCharge?: string | undefined;
  /** The payment is charged `before`, and its method charges back what the JobCall does not use of the amount. Absent: nothing. */
  readonly chargesBack?: true | undefined;
  /**
   * JSON of the settlement response of a payment that its journal entry alone pays: it begins settled, with its JobCall in the queue.
   * Absent for any other.
   */
  readonly settlement?: string | undefined;
}

/** Reports whether runners get the JobCall of a payment once the payment is in the journal. */
export function beginsReady({ charge, settlement }: Pick<PaymentIntent, "charge" | "settlement">): boolean {
  return charge !== "before" || settlement !== undefined;
}

/** Returns the most that a JobCall can use of its payment; null where the whole amount is charged whatever it uses. */
export function ceilingOf({
  charge,
  chargesBack,
  amount,
}: Pick<PaymentIntent, "charge" | "chargesBack" | "amount">): string | null {
  return charge === "before" && chargesBack !== true ? null : amount;
}

/** A promise to the buyer of a job that fails, which a part keeps. */
export interface FailurePromise {
  readonly name: string;
  /** A sentence for buyers. */
  readonly text: string;
}

/** A nonce that is used up once until it expires, with a payment or alone. */
export interface OneTimeNonce {
  /** The nonce and all that it is unique in, compared byte for byte. */
  readonly key: string;
  /** Unix seconds; once passed, the nonce may be forgotten. */
  readonly expiresAt: number;
  /** The charge uses it up, not the run: it is free again once the payment has failed, even if the job ran. */
  readonly isOfCharge?: true;
}

/**
 * - `intent`: settlement was or may have been requested; not decided yet.
 * - `settled`: paid, and its JobCall is in the queue or further.
 * - `failed`: not paid. If the chain shows otherwise while the JobCall is still kept, it is settled after all.
 * - `unresolved`: nothing more can be found out automatically; the operator decides.
 *
 * Payments that are not charged `before` begin as `authorized` instead of `intent`, and their JobCall is in the
 * queue from then on:
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

/** Money that the authorization of a payment moved before its charge, or without one. */
export interface MovedElsewhere {
  /** Token units, decimal. */
  readonly amount: string;
  readonly transaction: string;
  /** One line about it, for people. */
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

/** Reads the transaction from the settlement of a payment. @returns undefined if it names none */
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

/** One line about a closing, for people. */
export function closingText({ as, by, note }: PaymentClosing): string {
  return `closed as ${as === "paid" ? "paid" : "not paid"} by ${by}: ${note}`;
}

export interface PaymentRecord extends PaymentIntent {
  readonly state: PaymentState;
  readonly callId: number;
  /**
   * Most that can be charged; undefined for a payment that is charged `before`. `amount` is the same until the charge is
   * known, and the charge from then on.
   */
  readonly ceiling: string | undefined;
  /** Why it is in this state, for the operator. */
  readonly reason?: string | undefined;
  /** Set when an operator decided it, with the time in Unix milliseconds. */
  readonly closed?: (PaymentClosing & { readonly at: number }) | undefined;
  /** Unix milliseconds. */
  readonly createdAt: number;
  /** Unix milliseconds. */
  readonly updatedAt: number;
}

/** Bounds of a charge after the job, where a signed payment expires soon. */
export interface SoonEnd {
  /** Longest run of a job that can be charged after it ran. */
  readonly maxRunSecs: number;
  /** Time before the payment's end at which a job that still runs is charged, or ended. */
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
  /** Set if a signed payment expires soon. Absent: it lasts as long as its offer asks. */
  readonly endsSoon?: SoonEnd | undefined;
  /** The token itself checks what payers sign, under its EIP-712 domain, which the configuration has to say. */
  readonly isOfToken?: true;
}

/** The transfer method of the core. Offers of x402 do not name it. */
export const EIP3009: TransferMethod = {
  name: "eip3009",
  title: "EIP-3009",
  isOfToken: true,
};

/**
 * What became of the transaction of a refund. `refund_failed`: it certainly moved nothing, and never will. `owed`: it was
 * given up before it was signed, and can be queued again.
 */
export type RefundEnd =
  | {
      readonly state: "refunded";
      readonly transaction: string;
      readonly blockNumber: string;
      /** Account that sent the money. */
      readonly account: string | null;
    }
  | { readonly state: "refund_failed"; readonly reason: string; readonly transaction?: string }
  /** Nothing shows any more what became of the transaction: the operator says whether it moved nothing. */
  | { readonly state: "sending"; readonly reason: string; readonly transaction: string }
  | { readonly state: "owed"; readonly reason: string };
