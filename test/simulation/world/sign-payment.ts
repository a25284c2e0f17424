import type { PaymentRequirements } from "@x402/core/types";
import { authorizationTypes } from "@x402/evm";
import { hashTypedData } from "viem";
import type { ChargeKind } from "../../../src/core/payment.ts";
import { EXACT_PROXY, UPTO_PROXY } from "../../../src/parts/permit2/proxies.ts";
import { permit2Nonce } from "./chain-node.ts";
import type { SignedPayment } from "./laws.ts";
import { SOLANA_NETWORK, signOnSolana } from "./solana-payments.ts";
import { signHash } from "./viem.ts";

export interface Signed {
  readonly payment: SignedPayment;
  /** As x402 sends it. */
  readonly payload: {
    readonly accepted: PaymentRequirements;
    readonly payload: { readonly signature: string } & Authorized;
  };
}

/** The terms that a payer signs. */
export interface Terms {
  readonly resource: unknown;
  readonly accepted: PaymentRequirements;
  /** Default: before. */
  readonly charge?: ChargeKind;
  /** Token units. */
  readonly amount: string;
  readonly payer: string;
  /** No other payment of the payer has it. */
  readonly word: number;
  /** Default: made of the word. */
  readonly nonce?: `0x${string}` | undefined;
  /** Unix seconds. */
  readonly ends: number;
  /** Client that pays. */
  readonly client: string;
  /** At most one of all payments with this moves. */
  readonly once?: string | undefined;
  readonly extensions?: Readonly<Record<string, unknown>> | undefined;
}

/** A signature that only facilitators could check, and these do not. */
const SOME_SIGNATURE = `0x${"5".repeat(128)}1c`;

/** Signs a payment in the way that its offer asks for. */
export function signPayment(terms: Terms): Signed {
  const { accepted, amount, payer, word, ends } = terms;
  if (accepted.network === SOLANA_NETWORK) return signOnSolana(terms);
  const isDeferred = accepted.scheme === "upto";
  const isPermit2 = accepted.extra.assetTransferMethod === "permit2";
  if (!isPermit2) return payWith(terms, SOME_SIGNATURE, authorizationOf(terms));
  const nonce = permit2Nonce(word);
  const facilitator = accepted.extra.facilitatorAddress;
  const witness = { to: accepted.payTo, validAfter: "0", ...(isDeferred && { facilitator }) };
  const permitted = { token: accepted.asset, amount };
  const spender = (isDeferred ? UPTO_PROXY : EXACT_PROXY).address;
  const permit2Authorization = { from: payer, permitted, spender, nonce, deadline: String(ends), witness };
  return payWith(terms, SOME_SIGNATURE, { permit2Authorization });
}

/** Signs an EIP-3009 payment so that the gateway can check who has signed it. */
export function signProvably(terms: Terms): Signed {
  const { accepted } = terms;
  const signed = authorizationOf(terms);
  const { from, to, value, validAfter, validBefore, nonce } = signed.authorization;
  const { name, version } = accepted.extra as { name: string; version: string };
  const hash = hashTypedData({
    domain: {
      ...{ name, version, chainId: Number(accepted.network.split(":")[1]) },
      verifyingContract: accepted.asset as `0x${string}`,
    },
    types: authorizationTypes,
    primaryType: "TransferWithAuthorization",
    message: {
      ...{ from: from as `0x${string}`, to: to as `0x${string}`, value: BigInt(value) },
      ...{ validAfter: BigInt(validAfter), validBefore: BigInt(validBefore), nonce: nonce as `0x${string}` },
    },
  });
  return payWith(terms, signHash(from, hash), signed);
}

function authorizationOf({ accepted, amount, payer, word, nonce = wordNonce(word), ends }: Terms) {
  const authorization = {
    ...{ from: payer, to: accepted.payTo, value: amount, nonce },
    ...{ validAfter: "0", validBefore: String(ends) },
  };
  return { authorization };
}

function wordNonce(word: number): `0x${string}` {
  return `0x${word.toString(16).padStart(64, "0")}`;
}

type Authorized =
  | { readonly authorization: { readonly nonce: string } }
  | { readonly permit2Authorization: { readonly nonce: string } };

function payWith(terms: Terms, signature: string, signed: Authorized): Signed {
  const { resource, accepted, charge = "before", client, once, extensions, ends } = terms;
  const { nonce } = "authorization" in signed ? signed.authorization : signed.permit2Authorization;
  const payload = {
    ...{ x402Version: 2, resource, accepted, payload: { signature, ...signed } },
    ...(extensions && { extensions }),
  };
  const payment: SignedPayment = {
    ...{ payer: terms.payer.toLowerCase(), nonce, client, once, charge, ends },
    ...{ asset: accepted.asset.toLowerCase(), amount: BigInt(terms.amount) },
    ...{ mayBeCharged: 0, hasFailed: false },
  };
  return { payment, payload };
}
