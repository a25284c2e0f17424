import type * as z from "zod";
import type { Rpc } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { oneSpelling, TransferMethod } from "../../core/payment.ts";
import type { KindExtra } from "../facilitators/facilitator.ts";
import type { Authorization, AuthorizedPayment } from "../settlement/authorization.ts";
import type { RawLog } from "../settlement/chain-logs.ts";
import type { ChainPayment, MinedTransaction } from "../settlement/chain-payment.ts";
import type { TokenEvidence, TokenWatch } from "../settlement/token-evidence.ts";
import type { JobDescription, Offer } from "../wire/offer.ts";
import type { NamedOffer, Payload, WireVersion } from "../wire/version.ts";

/** Values that the payer of a payment signed, whatever its method is. */
export interface SignedFields {
  /** Address of the payer. All addresses here have the spelling that {@link oneSpelling} returns. */
  readonly from: string;
  readonly to: string;
  /** Token units. */
  readonly value: bigint;
  /** Unix seconds. */
  readonly validAfter: bigint;
  /** Unix seconds. */
  readonly validBefore: bigint;
  /** Unique for the payer in the method's space of nonces, in one spelling. */
  readonly nonce: string;
  /** The only address that can settle it; undefined where any can. */
  readonly settler: string | undefined;
  /** Digest of the signed fields and the signature: identifies this very payment. */
  readonly fingerprint: string;
}

/** Purchase that a payment is bound to, if its protocol binds it. */
export interface AskedPurchase extends JobKey {
  readonly body: Uint8Array;
  /** Hash of the whole request, at a job's own route. */
  readonly requestHash: string | undefined;
}

/** A signed payment, in one shape for all protocol versions and methods. */
export interface SignedPayment extends SignedFields, NamedOffer {
  /** The version of x402 that the payment, or what its protocol makes of it, came in. */
  readonly version: WireVersion;
  readonly method: Method;
  /** Name that the client gives all payments of one purchase. Not signed. */
  readonly purchaseName?: string;
  /** The whole payload, for the facilitator. */
  readonly payload: Payload;
  /** Checks that the payment was asked for this purchase. @throws GatewayError `payment_mismatch` */
  readonly requireAskedFor?: (purchase: AskedPurchase) => void;
}

/** A token that a payment may have been signed for, and its recipient. */
export type SignedToken = Pick<AcceptedToken, "network" | "asset" | "payTo" | "transferMethod" | "eip3009">;

/** A payment that a facilitator in this process is asked to settle, for any seller. */
export interface SettlablePayload {
  /** Address in any letter case. */
  readonly from: string;
  /** Unix seconds, decimal. */
  readonly validBefore: string;
  /** The only address that can settle it. */
  readonly settler?: string | undefined;
}

/**
 * A transfer method: what a payer signs to move a token, which offers that pays, what its chain shows of that, and which
 * charges it can make. The core has EIP-3009; a part adds another one by `Part.method`. Tokens, offers and stored payments
 * name it in `transferMethod`, and nothing but methods and parts depends on which one it is.
 */
export interface Method extends TransferMethod {
  /** Extensions of x402 that a facilitator may list for payments by this method. */
  readonly extensions: JobDescription["extensions"];

  /** Reports whether an x402 payload is of this method, well-formed or not. */
  owns(payload: object): boolean;
  /** The payload. `kind` completes "is not". */
  readonly payload: { readonly schema: z.ZodType<SignedFields>; readonly kind: string };

  /** Reports whether the signed part pays exactly this offer's amount to its recipient, and only that. */
  pays(payment: SignedPayment, offer: Offer): boolean;
  /**
   * Terms that differ in each 402. They are not kept with the offer: a payment repeats them, and {@link pays} compares them.
   * Absent: the same offer is shown to everyone.
   */
  readonly fresh?: FreshTerms;
  /** Returns the account that payments in a token to its `pay_to` go to. Absent: `pay_to` itself. */
  recipientOf?(token: SignedToken): string;
  /** Names of what {@link pays} compares besides the amount, for people: `recipient`. */
  readonly compared: string;
  /** Recovers who signed the payment for a token. @returns undefined for a signature that recovers to nobody */
  recoverSigner(payment: SignedPayment, token: SignedToken): Promise<string | undefined>;

  /** Shows the payments in a token on a chain that is not an EVM chain. Absent: {@link authorizationOf} pays on an EVM chain. */
  watch?(token: TokenWatch): TokenEvidence;
  /** Names of the transactions of that chain. Absent: hashes of 32 bytes. */
  readonly transaction?: RegExp;
  /** Returns the authorization that pays a payment, as its EVM chain shows it. */
  authorizationOf?(payment: AuthorizedPayment): Authorization;
  /**
   * Reads the payments in a token to its `pay_to` that a mined transaction made, and that are exact. Absent: an operator
   * cannot adopt such payments.
   */
  paymentsIn?(mined: MinedTransaction, token: AcceptedToken): ChainPayment[] | Promise<ChainPayment[]>;
  /** Returns why a transaction with these logs cannot be adopted if it made no exact payment. */
  whyNotExact?(logs: readonly RawLog[]): string | undefined;
  /** Returns why tokens of a chain cannot be paid in a scheme: `…, but the chain does not have …`. */
  findChainProblem?(
    rpc: Rpc,
    of: { readonly network: string; readonly scheme: string },
  ): Promise<string | undefined>;
  /** Reads what a payer can pay, for a charge that comes after the job. Absent: there is no such charge. */
  readonly funds?: PayerFundsReader;

  /**
   * Reads a payload that any seller may have sent to a facilitator in this process. Absent: such a facilitator settles none.
   * @returns undefined for another shape
   */
  readSettlable?(payload: object, scheme: string): SettlablePayload | undefined;
  /** Those of {@link extensions} that jobgate's own facilitator settles. */
  readonly settledExtensions?: readonly string[];
  /** Returns the only account that a contract lets send a transaction; undefined if any can. Lower case. */
  senderOf?(transaction: { readonly to: string; readonly data: string }): `0x${string}` | undefined;
}

/** Fields of an offer's `extra` that are made for one 402. */
export interface FreshTerms {
  /** Names of the fields. Any of them can be absent. */
  readonly keys: readonly string[];
  /**
   * Makes the fields.
   * @param of `kind` is what a facilitator says of such payments; `connect` connects to the token's chain
   */
  make(of: {
    readonly kind: KindExtra;
    readonly connect: () => Promise<Rpc | undefined>;
  }): Promise<Readonly<Record<string, string>> | undefined>;
}

export interface PayerFundsReader {
  /** Reads what the payer of a payment could pay now, in token units. @returns undefined when the chain does not tell */
  read(rpc: Rpc, payment: Pick<AuthorizedPayment, "key" | "payload">): Promise<bigint | undefined>;
  /** Returns why a payment could not be charged its whole amount now; undefined when it could. */
  findShortfall(rpc: Rpc, payment: AuthorizedPayment): Promise<string | undefined>;
}
