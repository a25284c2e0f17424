import type { SchemeNetworkFacilitator } from "@x402/core/types";
import type * as z from "zod";
import type { Rpc } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import type { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { oneSpelling, PaymentIntent, TransferMethod } from "../../core/payment.ts";
import type { JobRequest } from "../../http/request.ts";
import type { KindExtra } from "../facilitators/facilitator.ts";
import type { OwnSettlement } from "../facilitators/own-settlement.ts";
import type { Authorization, AuthorizedPayment, Collector } from "../settlement/authorization.ts";
import type { ChainHistory } from "../settlement/chain-history.ts";
import type { RawLog } from "../settlement/chain-logs.ts";
import type { ChainPayment, MinedTransaction } from "../settlement/chain-payment.ts";
import type { PaidEvidence } from "../settlement/payment-decision.ts";
import type { TokenEvidence, TokenWatch } from "../settlement/token-evidence.ts";
import type { JobDescription, Offer } from "../wire/offer.ts";
import type { NamedOffer, Payload, WireVersion } from "../wire/version.ts";

/** Values that the payer of a payment signed, independent of the method. */
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
  /** The only address that can settle the payment; undefined if any address can. */
  readonly facilitatorAddress?: string | undefined;
  /** Digest of the signed fields and the signature, which identifies the payment. */
  readonly fingerprint: string;
  /** The payload as its method reads it. */
  readonly details?: object;
}

/** Purchase that a payment is for, if its protocol binds payments to purchases. */
export interface AskedPurchase extends JobKey {
  readonly body: Uint8Array;
  /** Hash of the whole request, at a job's own route. */
  readonly requestHash: string | undefined;
}

/** A signed payment, in one shape for all protocol versions and methods. */
export interface SignedPayment extends SignedFields, NamedOffer {
  /** x402 version of the payment, or of the x402 payment into which its protocol translates it. */
  readonly version: WireVersion;
  readonly method: Method;
  /** Name that the client gives to all payments of one purchase. The name is not signed. */
  readonly purchaseName?: string;
  /** Set if it is known that no payment with this fingerprint is in the journal. */
  readonly isNew?: true;
  /** The whole payload, for the facilitator. */
  readonly payload: Payload;
  /** Checks that the payment is for this purchase. @throws GatewayError `payment_mismatch` */
  readonly requireAskedFor?: (purchase: AskedPurchase) => void;
}

/** Reads payments in one protocol. It only translates them; all further steps are the same for every protocol. */
export interface PaymentReader {
  /** Returns true if a request carries a payment, well-formed or not. */
  carriesPayment(request: JobRequest): boolean;
  /** @returns undefined when the request carries no payment @throws GatewayError `invalid_payment`, `malformed_credential` */
  readPayment(request: JobRequest): SignedPayment | undefined;
  /** Set if the answer to an unpaid request needs the request's body. */
  readonly bindsBody?: true;
}

/** A token that a payment may have been signed for, with its recipient. */
export type SignedToken = Pick<AcceptedToken, "network" | "asset" | "payTo" | "transferMethod" | "eip3009">;

/** A payment that a facilitator in this process settles, for any seller. */
export interface SettlablePayload {
  /** Address in any letter case. */
  readonly from: string;
  /** Unix seconds, decimal. */
  readonly validBefore: string;
  /** The only address that can settle the payment. */
  readonly sender?: string | undefined;
  /** Text that identifies the payment's transaction, if the payload alone does not. */
  readonly reference?: string | undefined;
  /**
   * The transfer that settles the payment. Undefined means a transfer of the required amount to the recipient. `none`: no
   * transfer from the payer.
   */
  readonly moves?: { readonly to: string; readonly amount: string } | "none";
}

/** A scheme other than `exact` that jobgate's own facilitator settles on EVM chains. */
export interface OwnScheme {
  readonly name: string;
  /**
   * Loads the code that verifies and settles payments in this process.
   * @param signer the SDK's signer for `exact`; the options are also the SDK's
   */
  load(signer: object, options: object): Promise<Pick<SchemeNetworkFacilitator, "verify" | "settle">>;
}

/** Name and explorer of a network, for people. */
export interface NetworkDescription {
  readonly name: string;
  /** URLs at the network's explorer, with `{}` as a placeholder for the transaction or account. */
  readonly explorer: { readonly transactionUrl: string; readonly accountUrl: string } | undefined;
}

/**
 * A transfer method defines what a payer signs to move a token, which offers the signature pays, what the chain shows
 * of the payment, and which charges are possible. The core has EIP-3009; a part adds another method by `Part.method`.
 * Tokens, offers and stored payments name their method in `transferMethod`, and only methods and parts depend on which
 * method it is.
 */
export interface Method extends TransferMethod {
  /** Extensions of x402 that a facilitator may list for payments by this method. */
  readonly extensions: JobDescription["extensions"];

  /** Returns true if an x402 payload is of this method, well-formed or not. */
  owns(payload: object): boolean;
  /** Schema of the payload. `kind` completes "is not". */
  readonly payload: { readonly schema: z.ZodType<SignedFields>; readonly kind: string };

  /** Reports whether the signed part pays exactly this offer's amount to its recipient, and only that. */
  pays(payment: SignedPayment, offer: Offer): boolean;
  /**
   * Terms that differ in each 402. They are not stored with the offer, because a payment repeats them and {@link pays}
   * compares them. Undefined if every client gets the same offer.
   */
  readonly fresh?: FreshTerms;
  /** Returns the account to which payments in a token go. Undefined if payments go to the token's `pay_to` itself. */
  recipientOf?(token: SignedToken): string;
  /** Names for people of the fields that {@link pays} compares in addition to the amount: `recipient`. */
  readonly compared: string;
  /**
   * Returns a payment that is identified by its payload and its request, because payers may sign the same bytes for several
   * requests. Undefined if the payload alone identifies a payment.
   * @param request digest of the request
   */
  bind?(payment: SignedPayment, request: string): SignedPayment;
  /** Returns true if a payment does not expire. Undefined if every payment expires. */
  isEndless?(payment: SignedPayment): boolean;
  /**
   * Checks a payment without querying its chain.
   * @returns `settlement`, the fields of {@link settlementOf}, for a payment that is paid by its journal entry alone;
   * "unpaid" if a facilitator has to settle it; or the reason why it is not valid
   */
  check?(
    payment: SignedPayment,
    offer: Offer,
  ): Promise<"unpaid" | { readonly settlement: object } | { readonly invalid: string }>;
  /**
   * Returns the evidence of a journalled payment that is paid by its journal entry alone; undefined for any other
   * payment.
   */
  evidenceOf?(intent: Pick<PaymentIntent, "payload">): PaidEvidence | undefined;
  /** Makes the refusal of a payment that a module of the store did not let begin. @param reason the module's reason */
  notTaken?(reason: string): GatewayError;
  /** Returns further fields of the settlement that clients get. */
  settlementOf?(intent: Pick<PaymentIntent, "payload" | "amount">): object;
  /**
   * Recovers the account that signed the payment for a token. @returns undefined for a signature from which no account can
   * be recovered
   */
  recoverSigner(payment: SignedPayment, token: SignedToken): Promise<string | undefined>;

  /** Proof of accounts on networks that are not EVM chains. Undefined if accounts prove themselves as on EVM chains. */
  readonly accountProof?: AccountProof;

  /** Describes a network that is not an EVM chain. @returns undefined for a network that the method does not pay on */
  describeNetwork?(network: string): NetworkDescription | undefined;

  /**
   * Shows the payments in a token on a chain that is not an EVM chain. Undefined if the method pays on EVM chains ({@link
   * authorizationOf}).
   */
  watch?(token: TokenWatch): TokenEvidence;
  /**
   * Shows past payments on a chain that is not an EVM chain. Undefined if the method pays on EVM chains ({@link
   * paymentsIn}).
   */
  readonly history?: ChainHistory;
  /** Form of the names of that chain's transactions. Undefined means hashes of 32 bytes. */
  readonly transaction?: RegExp;
  /**
   * Returns the authorization that pays a payment, as its EVM chain shows it.
   * @param methods methods of the build. Another method may move the money of this method's payment
   */
  authorizationOf?(
    payment: AuthorizedPayment,
    methods: { get(name: string): Method },
  ): Authorization | undefined;
  /** Returns the authorization of a payment that a contract of another method collects. Undefined if no such contract can. */
  collectedBy?(collector: Collector, payment: AuthorizedPayment): Authorization;
  /**
   * Reads the exact payments to a token's `pay_to` that a transaction of an EVM chain made. Undefined if an operator cannot
   * adopt such payments.
   */
  paymentsIn?(mined: MinedTransaction, token: AcceptedToken): ChainPayment[] | Promise<ChainPayment[]>;
  /** Returns the reason why a transaction with these logs cannot be adopted if it made no exact payment. */
  whyNotExact?(logs: readonly RawLog[]): string | undefined;
  /** Returns the reason why tokens of a chain cannot be paid in a scheme: `…, but the chain does not have …`. */
  findChainProblem?(
    rpc: Rpc,
    of: { readonly network: string; readonly scheme: string },
  ): Promise<string | undefined>;
  /**
   * Reads the amount that a payer can pay, for a charge that comes after the job. Undefined if the method has no such
   * charge.
   */
  readonly funds?: PayerFundsReader;

  /**
   * Reads a payload that any seller may have sent to a facilitator in this process. Undefined if such a facilitator settles
   * no payments of the method.
   * @returns undefined for a payload of another shape
   */
  readSettlable?(payload: object, scheme: string): SettlablePayload | undefined;
  /** Settles payments on chains that are not EVM chains from accounts of jobgate's own. */
  readonly ownSettlement?: OwnSettlement;
  /** The scheme of the method's payments, if the SDK's facilitator for `exact` does not settle them. */
  readonly ownScheme?: OwnScheme;
  /** Names of the {@link extensions} that jobgate's own facilitator settles. */
  readonly settledExtensions?: readonly string[];
  /** Returns the only account that a contract lets send a transaction; undefined if any account can. Lower case. */
  senderOf?(transaction: { readonly to: string; readonly data: string }): `0x${string}` | undefined;
}

/** Makes a seal of a text: 43 characters of base64url. */
type Seal = (text: string) => string;

/** Proof of accounts on networks of one kind: their keys sign a text (CAIP-122). */
export interface AccountProof {
  /** Type of the signatures in challenges: `eip191`. */
  readonly type: string;
  /** Completes "with your … account" in the text that is signed. */
  readonly accounts: string;
  isAddress(text: string): boolean;
  /** Returns true if a text has the form of a signature. */
  isSignature(text: string): boolean;
  /** Returns true if the account's own key signed a text. */
  isSigned(text: string, by: { readonly address: string; readonly signature: string }): Promise<boolean>;
}

/** Fields of an offer's `extra` that are made for one 402. */
export interface FreshTerms {
  /** Names of the fields, each of which can be missing. */
  readonly keys: readonly string[];
  /**
   * Makes the fields.
   * @param of `kind` is the `extra` that a facilitator lists for such payments; `connect` connects to the token's chain;
   *   `seal` makes a seal that only holders of the store's secret can make
   */
  make(of: {
    readonly kind: KindExtra;
    readonly connect: () => Promise<Rpc | undefined>;
    readonly seal: Seal;
  }): Promise<Readonly<Record<string, string>> | undefined>;
  /**
   * Returns true if the end of a payment, `validBefore`, follows from fields that this gateway made. A charge that comes
   * after the job depends on such an end. Undefined if payers sign the end.
   */
  hasOwnEnd?(payment: SignedPayment, seal: Seal): boolean;
}

export interface PayerFundsReader {
  /**
   * Reads the amount that the payer of a payment could pay now, in token units. @returns undefined if the chain does not
   * show it
   */
  read(rpc: Rpc, payment: Pick<AuthorizedPayment, "key" | "payload">): Promise<bigint | undefined>;
  /** Returns the reason why a payment could not be charged its whole amount now; undefined if it could. */
  findShortfall(rpc: Rpc, payment: AuthorizedPayment): Promise<string | undefined>;
}
