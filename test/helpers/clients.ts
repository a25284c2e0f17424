import type { SpendControls } from "@x402/core/client";
import { decodePaymentRequiredHeader, encodePaymentSignatureHeader } from "@x402/core/http";
import type { Network, PaymentPayload, PaymentRequired, PaymentRequirements } from "@x402/core/types";
import type { PaymentPayloadV1, PaymentRequiredV1, PaymentRequirementsV1 } from "@x402/core/types/v1";
import { authorizationTypes, PERMIT2_ADDRESS, permit2WitnessTypes } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { UptoEvmScheme } from "@x402/evm/upto/client";
import { getEvmChainIdV1 } from "@x402/evm/v1";
import { appendPaymentIdentifierToExtensions } from "@x402/extensions/payment-identifier";
import { wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { type Address, type Hex, toHex } from "viem";
import type { TestAccount } from "./accounts.ts";
import { post } from "./http-post.ts";
import type { SignedAuthorization } from "./usdc.ts";

type Authorization = SignedAuthorization["authorization"];

/**
 * The official version 2 client: `fetch`, that pays when it is answered 402. Without `spendControls` it pays at
 * most 1 USD, in tokens that it knows.
 */
export function payingFetch(options: {
  readonly account: TestAccount;
  /** CAIP-2. */
  readonly network: Network;
  readonly spendControls?: SpendControls | false;
  /** Which offers it pays, by the method and the token. Default: all that it can pay. */
  readonly transferMethod?: "eip3009" | "permit2";
  /** Default: exact. */
  readonly scheme?: "exact" | "upto";
  readonly asset?: Address;
  /** Lets the client read its allowance and sign an approval (gas sponsoring). */
  readonly rpcUrl?: string;
  /** Makes each single request, the one without and the one with the payment. Default: the global one. */
  readonly fetch?: typeof globalThis.fetch;
}): typeof globalThis.fetch {
  const { account, network, spendControls, transferMethod, rpcUrl } = options;
  const isChosen = ({ extra, asset }: PaymentRequirements) =>
    (extra.assetTransferMethod ?? "eip3009") === transferMethod &&
    asset.toLowerCase() === (options.asset ?? asset).toLowerCase();
  const Scheme = options.scheme === "upto" ? UptoEvmScheme : ExactEvmScheme;
  return wrapFetchWithPaymentFromConfig(options.fetch ?? globalThis.fetch, {
    schemes: [{ network, client: new Scheme(account, rpcUrl === undefined ? undefined : { rpcUrl }) }],
    ...(transferMethod && { policies: [(_version, accepts) => accepts.filter(isChosen)] }),
    ...(spendControls === undefined ? {} : { spendControls }),
  });
}

/** Answer to a request without a payment: the offer in both protocol versions. */
export interface Offer {
  readonly v2: PaymentRequired;
  readonly v1: PaymentRequiredV1;
}

/** Asks for an offer. Throws if the answer is not a 402 with one. */
export async function requestOffer(
  url: string,
  body: string | Uint8Array<ArrayBuffer> = "",
  headers: Readonly<Record<string, string>> = {},
): Promise<Offer> {
  const response = await post(url, { body, headers });
  const text = await response.text();
  const header = response.headers.get("payment-required");
  if (response.status !== 402 || header === null) {
    throw new Error(`expected an offer from ${url}, got ${response.status} ${text}`);
  }
  return { v2: decodePaymentRequiredHeader(header), v1: JSON.parse(text) as PaymentRequiredV1 };
}

interface SigningOptions {
  readonly account: TestAccount;
  /** Replaces fields of the authorization before it is signed: a payment that is wrong, but truly signed. */
  readonly authorization?: Partial<Authorization>;
  /** Which of the offered options is taken. Default 0. */
  readonly option?: number;
}

/** A payment as encoded in its header. */
export interface SignedPayment<Payload> {
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Payload;
  readonly signed: SignedAuthorization;
}

/**
 * Signs a version 2 payment for an offer. `edit` changes the payload after it was signed: a forgery.
 */
export async function signV2Payment(
  options: SigningOptions & {
    readonly offer: PaymentRequired;
    readonly edit?: (payload: PaymentPayload) => PaymentPayload;
  },
): Promise<SignedPayment<PaymentPayload>> {
  const { offer, edit = (payload) => payload } = options;
  const accepted = chosen(offer.accepts, options.option);
  const signed = await signAuthorization(options, {
    chainId: Number(accepted.network.split(":")[1]),
    amount: accepted.amount,
    requirements: accepted,
  });
  const payload = edit({
    x402Version: 2,
    payload: { ...signed },
    ...(offer.resource === undefined ? {} : { resource: offer.resource }),
    accepted,
  });
  return { headers: v2PaymentHeaders(payload), payload, signed };
}

/** Signs a version 1 payment for an offer. `edit` changes the payload after it was signed: a forgery. */
export async function signV1Payment(
  options: SigningOptions & {
    readonly offer: PaymentRequiredV1;
    readonly edit?: (payload: PaymentPayloadV1) => PaymentPayloadV1;
  },
): Promise<SignedPayment<PaymentPayloadV1>> {
  const { offer, edit = (payload) => payload } = options;
  const requirements = chosen(offer.accepts, options.option);
  const { scheme, network } = requirements;
  const signed = await signAuthorization(options, {
    chainId: getEvmChainIdV1(network),
    amount: requirements.maxAmountRequired,
    requirements,
  });
  const payload = edit({ x402Version: 1, scheme, network, payload: { ...signed } });
  return { headers: { "x-payment": base64Json(payload) }, payload, signed };
}

/** Fields that a payer signs for Permit2. Numbers are decimal strings. */
export interface Permit2Authorization {
  readonly from: Address;
  readonly permitted: { readonly token: Address; readonly amount: string };
  readonly spender: Address;
  readonly nonce: string;
  readonly deadline: string;
  readonly witness: { readonly to: Address; readonly validAfter: string };
}

/** A Permit2 payment as encoded in its header. */
export interface Permit2Payment {
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: PaymentPayload;
  readonly permit: Permit2Authorization;
}

/**
 * Signs a Permit2 payment, by the official client, and presents it as the answer to the offer as it stands, whatever
 * transfer method that asks for. `permit` replaces fields before they are signed; `edit` changes the payload after it.
 */
export async function signPermit2Payment(options: {
  readonly offer: PaymentRequired;
  readonly account: TestAccount;
  readonly option?: number;
  readonly permit?: Partial<Permit2Authorization>;
  readonly edit?: (payload: PaymentPayload) => PaymentPayload;
}): Promise<Permit2Payment> {
  const { offer, account, edit = (payload) => payload } = options;
  const accepted = chosen(offer.accepts, options.option);
  const asPermit2 = { ...accepted, extra: { ...accepted.extra, assetTransferMethod: "permit2" } };
  const made = await new ExactEvmScheme(account).createPaymentPayload(2, asPermit2);
  const official = made.payload as { permit2Authorization: Permit2Authorization; signature: Hex };
  const permit = { ...official.permit2Authorization, ...options.permit };
  const signature =
    options.permit === undefined
      ? official.signature
      : await signPermit(account, Number(accepted.network.split(":")[1]), permit);
  const payload = edit({
    x402Version: 2,
    payload: { permit2Authorization: permit, signature },
    ...(offer.resource === undefined ? {} : { resource: offer.resource }),
    accepted,
  });
  return { headers: v2PaymentHeaders(payload), payload, permit };
}

function signPermit(account: TestAccount, chainId: number, permit: Permit2Authorization): Promise<Hex> {
  const { permitted, spender, nonce, deadline, witness } = permit;
  return account.signTypedData({
    domain: { name: "Permit2", chainId, verifyingContract: PERMIT2_ADDRESS },
    types: permit2WitnessTypes,
    primaryType: "PermitWitnessTransferFrom",
    message: {
      permitted: { ...permitted, amount: BigInt(permitted.amount) },
      spender,
      nonce: BigInt(nonce),
      deadline: BigInt(deadline),
      witness: { ...witness, validAfter: BigInt(witness.validAfter) },
    },
  });
}

/** Signs a metered payment, by the official client. @param secs default: the offer's `maxTimeoutSeconds` */
export async function signMeteredPayment(options: {
  readonly offer: PaymentRequired;
  readonly account: TestAccount;
  readonly secs?: number;
}): Promise<Permit2Payment> {
  const { offer, account } = options;
  const accepted = offer.accepts.find(({ scheme }) => scheme === "upto");
  if (accepted === undefined) throw new Error("no offer is metered");
  const { secs = accepted.maxTimeoutSeconds } = options;
  const made = await new UptoEvmScheme(account).createPaymentPayload(2, {
    ...accepted,
    maxTimeoutSeconds: secs,
  });
  const resource = offer.resource === undefined ? {} : { resource: offer.resource };
  const payload = { x402Version: 2, payload: made.payload, ...resource, accepted };
  const permit = made.payload.permit2Authorization as Permit2Authorization;
  return { headers: v2PaymentHeaders(payload), payload, permit };
}

/** Puts a payment identifier into a payment, as the official client does. It is not signed. */
export function withIdentifier(payload: PaymentPayload, id: string, required = false): PaymentPayload {
  const declared = { "payment-identifier": { info: { required }, schema: {} } };
  return { ...payload, extensions: appendPaymentIdentifierToExtensions(declared, id) };
}

/** The header of a version 2 payment. */
export function v2PaymentHeaders(payload: PaymentPayload): Readonly<Record<string, string>> {
  return { "payment-signature": encodePaymentSignatureHeader(payload) };
}

/** A value as headers of x402 carry it. */
export function base64Json(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64");
}

function chosen<Option>(accepts: readonly Option[], option = 0): Option {
  const requirements = accepts[option];
  if (requirements === undefined) throw new Error(`the offer has no option ${option}`);
  return requirements;
}

async function signAuthorization(
  options: SigningOptions,
  terms: {
    readonly chainId: number;
    readonly amount: string;
    readonly requirements: PaymentRequirements | PaymentRequirementsV1;
  },
): Promise<SignedAuthorization> {
  const { payTo, asset, extra, maxTimeoutSeconds } = terms.requirements;
  const nowSecs = Math.floor(Date.now() / 1000);
  const authorization: Authorization = {
    from: options.account.address,
    to: payTo as Address,
    value: terms.amount,
    validAfter: String(nowSecs - 600),
    validBefore: String(nowSecs + maxTimeoutSeconds),
    nonce: randomNonce(),
    ...options.authorization,
  };
  const signature = await options.account.signTypedData({
    domain: {
      name: String(extra.name),
      version: String(extra.version),
      chainId: terms.chainId,
      verifyingContract: asset as Address,
    },
    types: authorizationTypes,
    primaryType: "TransferWithAuthorization",
    message: {
      ...authorization,
      value: BigInt(authorization.value),
      validAfter: BigInt(authorization.validAfter),
      validBefore: BigInt(authorization.validBefore),
    },
  });
  return { authorization, signature };
}

/** 32 random bytes, as EIP-3009 nonces are. */
function randomNonce(): Hex {
  return toHex(crypto.getRandomValues(new Uint8Array(32)));
}
