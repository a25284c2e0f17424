import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import type { AcceptedToken } from "../../src/config/config.ts";
import type { JobCall } from "../../src/core/job-call.ts";
import type { PaymentIntent } from "../../src/core/payment.ts";
import { SealedOffers } from "../../src/x402/prices/offer-book.ts";
import type { PricesOfRequests } from "../../src/x402/prices/price-book.ts";
import { accounts } from "../helpers/accounts.ts";
import type { Anvil } from "../helpers/anvil.ts";
import { type SignedPayment, signV2Payment } from "../helpers/clients.ts";
import type { SignedAuthorization, Token } from "../helpers/usdc.ts";

const AMOUNT = 3_264_000n;

export function acceptedToken(anvil: Anvil, token: Token, rpcUrl?: string): AcceptedToken {
  return {
    network: `eip155:${anvil.chainId}`,
    asset: token.address,
    symbol: "USDC",
    decimals: token.decimals,
    payTo: accounts.payTo.address,
    rate: { kind: "fixed", ratePerNativeUnit: "3200.00" },
    markupBps: 200,
    transferMethod: "eip3009",
    eip3009: { name: token.name, version: token.version },
    ...(rpcUrl === undefined ? {} : { rpcUrl }),
    confirmations: 1,
    requireOnchainConfirmation: rpcUrl !== undefined,
  };
}

export interface PaymentToSettle {
  readonly payment: SignedPayment<PaymentPayload>;
  readonly signed: SignedAuthorization;
  readonly intent: PaymentIntent;
}

/** Signs a payment of {@link AMOUNT} that is valid for `validSecs` of the chain's time, and makes its intent. */
export async function paymentToSettle(options: {
  readonly anvil: Anvil;
  readonly token: Token;
  readonly validSecs?: number;
  readonly authorization?: Partial<SignedAuthorization["authorization"]>;
}): Promise<PaymentToSettle> {
  const { anvil, token, validSecs = 300 } = options;
  const offer = offerOf(anvil, token);
  const { timestamp, number } = await anvil.client.getBlock();
  const payment = await signV2Payment({
    offer,
    account: accounts.payer,
    authorization: { validBefore: String(Number(timestamp) + validSecs), ...options.authorization },
  });
  const { from, nonce, validBefore } = payment.signed.authorization;
  const intent = intentOf(offer, payment.payload, {
    transferMethod: "eip3009",
    payer: from,
    nonce: nonce.toLowerCase(),
    digest: nonce.slice(2),
    validBefore,
    fromBlock: number,
  });
  return { payment, signed: payment.signed, intent };
}

export function offerOf(anvil: Anvil, token: Pick<Token, "address" | "name" | "version">) {
  const requirements: PaymentRequirements = {
    scheme: "exact",
    network: `eip155:${anvil.chainId}`,
    amount: String(AMOUNT),
    asset: token.address,
    payTo: accounts.payTo.address,
    maxTimeoutSeconds: 300,
    extra: { name: token.name, version: token.version },
  };
  return { x402Version: 2, resource: { url: "http://127.0.0.1/" }, accepts: [requirements] };
}

export function intentOf(
  { accepts }: ReturnType<typeof offerOf>,
  payload: PaymentPayload,
  signed: {
    readonly transferMethod: string;
    readonly payer: string;
    readonly nonce: string;
    /** Stands in for the digests that identify the payment and its quote. */
    readonly digest: string;
    readonly validBefore: string;
    readonly fromBlock: bigint;
  },
): PaymentIntent {
  const [requirements] = accepts as [PaymentRequirements];
  const { network, asset, payTo } = requirements;
  const { transferMethod, payer, nonce, digest, validBefore, fromBlock } = signed;
  return {
    key: { network, asset: asset.toLowerCase(), payer: payer.toLowerCase(), nonce },
    serviceId: 1n,
    jobIndex: 0,
    fingerprint: digest,
    bodyHash: "00".repeat(32),
    charge: "before",
    x402Version: 2,
    payload: JSON.stringify(payload),
    requirements: JSON.stringify(requirements),
    transferMethod,
    payTo: payTo.toLowerCase(),
    amount: String(AMOUNT),
    symbol: "USDC",
    price: "1000000000000000",
    rate: "3200.00",
    decimals: 6,
    validBefore: Number(validBefore),
    receipt: digest,
    fromBlock: String(fromBlock),
  };
}

export const jobCall: JobCall = {
  origin: "x402",
  jobId: 0n,
  serviceId: 1n,
  body: Buffer.from("work"),
  metadata: {},
};

/** Prices of a gateway whose prices do not depend on the request. */
export const NO_REQUEST_PRICES: PricesOfRequests = {
  byJob: new Map(),
  routes: { boundHeadersOf: () => undefined, paramsOf: () => [] },
  limits: { clientOf: () => "" },
  sealed: new SealedOffers({ seal: (text) => text }),
};
