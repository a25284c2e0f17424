import type { SpendControls } from "@x402/core/client";
import { decodePaymentRequiredHeader, encodePaymentSignatureHeader } from "@x402/core/http";
import type { Network, PaymentPayload, PaymentRequired, PaymentRequirements } from "@x402/core/types";
import type { PaymentPayloadV1, PaymentRequiredV1, PaymentRequirementsV1 } from "@x402/core/types/v1";
import { authorizationTypes } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { getEvmChainIdV1 } from "@x402/evm/v1";
import { wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { type Address, type Hex, toHex } from "viem";
import type { TestAccount } from "./accounts.ts";
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
  /** Makes each single request, the one without and the one with the payment. Default: the global one. */
  readonly fetch?: typeof globalThis.fetch;
}): typeof globalThis.fetch {
  const { account, network, spendControls } = options;
  return wrapFetchWithPaymentFromConfig(options.fetch ?? globalThis.fetch, {
    schemes: [{ network, client: new ExactEvmScheme(account) }],
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
  const response = await fetch(url, { method: "POST", body, headers });
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

/**
 * Signs a Permit2 payment, by the official client, and presents it as the answer to the offer as it stands, whatever
 * transfer method that asks for.
 */
export async function signPermit2Payment(options: {
  readonly offer: PaymentRequired;
  readonly account: TestAccount;
}): Promise<{ readonly headers: Readonly<Record<string, string>>; readonly payload: PaymentPayload }> {
  const { offer, account } = options;
  const accepted = chosen(offer.accepts);
  const asPermit2 = { ...accepted, extra: { ...accepted.extra, assetTransferMethod: "permit2" } };
  const { payload } = await new ExactEvmScheme(account).createPaymentPayload(2, asPermit2);
  const payment: PaymentPayload = { x402Version: 2, payload, accepted };
  return { headers: v2PaymentHeaders(payment), payload: payment };
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
