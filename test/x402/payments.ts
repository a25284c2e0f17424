import type { IncomingHttpHeaders } from "node:http";
import type { PaymentPayload, PaymentPayloadV1 } from "@x402/core/types";
import type { AcceptedToken } from "../../src/config/config.ts";
import type { HttpRequest } from "../../src/http/request.ts";
import { EIP3009_METHOD } from "../../src/x402/methods/eip3009.ts";
import type { Method, SignedPayment } from "../../src/x402/methods/method.ts";
import { Methods } from "../../src/x402/methods/methods.ts";
import { TokenRates } from "../../src/x402/prices/token-rates.ts";
import {
  type CeilingScheme,
  makeOffers,
  type Offer,
  type OfferTerms,
  schemeOf,
  toRequirements,
} from "../../src/x402/wire/offer.ts";
import { readPayment } from "../../src/x402/wire/payment-header.ts";
import { Versions, type WireVersion } from "../../src/x402/wire/version.ts";
import { accounts } from "../helpers/accounts.ts";
import { base64Json, signV2Payment } from "../helpers/clients.ts";
import type { SignedAuthorization } from "../helpers/usdc.ts";

/** Costs {@link AMOUNT} of {@link USDC}. */
export const PRICE_WEI = 1_000_000_000_000_000n;
export const AMOUNT = "3264000";
export const JOB = { serviceId: 1n, jobIndex: 0 };

export const USDC: AcceptedToken = {
  network: "eip155:84532",
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  symbol: "USDC",
  decimals: 6,
  payTo: accounts.payTo.address,
  rate: { kind: "fixed", ratePerNativeUnit: "3200.00" },
  markupBps: 200,
  transferMethod: "eip3009",
  eip3009: { name: "USDC", version: "2" },
  confirmations: 1,
  requireOnchainConfirmation: false,
};

/** Another token of the same network at the same amount. */
export const EURC: AcceptedToken = {
  ...USDC,
  asset: "0x808456652fdb597867f38412077A9182bf77359F",
  symbol: "EURC",
  eip3009: { name: "EURC", version: "2" },
};

/** {@link USDC}, paid by {@link OTHER_METHOD}. */
export const OTHER_USDC: AcceptedToken = { ...USDC, transferMethod: "other" };

/** A transfer method as a part adds it, which can charge less than was signed. */
export const OTHER_METHOD: Method = {
  ...EIP3009_METHOD,
  ...{ name: "other", title: "Other", chargesPart: true },
  owns: (payload) => "other" in payload,
};

/** A scheme beside exact as a part adds it. It settles nothing in this process. */
export const OTHER_SCHEME: CeilingScheme = {
  name: "upto",
  extraFor: (facilitatorAddress) => ({ facilitatorAddress }),
  facilitatorAddressIn: (extra) => extra?.facilitatorAddress as string | undefined,
  settledBy() {
    throw new Error("not in this process");
  },
};

/** {@link OTHER_VERSION} has no name for Ethereum. */
const nameOf = (network: string) =>
  network === "eip155:1" ? undefined : network.replace("eip155:", "other-");

/** A version of x402 as a part adds it. Its payments name a scheme and a network, and no offer. */
export const OTHER_VERSION: WireVersion = {
  // The only number beside 2 that the SDK parses.
  number: 1,
  headers: { payment: "x-other", settlement: "x-other-response" },
  hasExtensions: false,
  nameOf,
  networkOf: (name) => (name.startsWith("other-") ? name.replace("other-", "eip155:") : undefined),
  read(payload) {
    const { scheme, network } = payload as PaymentPayloadV1;
    return { scheme, network };
  },
  names: ({ scheme, network }, offer) =>
    scheme === schemeOf(offer) && network === nameOf(offer.token.network),
  requirementsOf(offer) {
    const network = nameOf(offer.token.network);
    return network === undefined ? undefined : { ...toRequirements(offer), network };
  },
  isRequirements: () => false,
  toCurrent: () => undefined,
};

/** The transfer methods of the core, and {@link OTHER_VERSION} beside its version. */
export const METHODS = new Methods([], new Versions([OTHER_VERSION]));

/** The rates of tokens that have a fixed one. */
export const FIXED_RATES: Pick<TokenRates, "rateOf"> = new TokenRates(undefined);

export function offersOf(terms: Partial<OfferTerms> = {}): Offer[] {
  return makeOffers({ job: JOB, priceWei: PRICE_WEI, tokens: [USDC], ttlSecs: 300, ...terms }, FIXED_RATES);
}

/** Makes a request with only these header lines, each `[name in lower case, value]`. */
export function requestWith(lines: readonly (readonly [string, string])[]): HttpRequest {
  const request: Pick<HttpRequest, keyof HttpRequest> = {
    id: "r1",
    method: "POST",
    path: "/x402/jobs/1/0",
    query: "",
    headers: Object.fromEntries(lines) as IncomingHttpHeaders,
    remoteAddress: "127.0.0.1",
    closed: new AbortController().signal,
    headerValues: (name) => lines.filter(([key]) => key === name).map(([, value]) => value),
    readBody: () => Promise.resolve(new Uint8Array()),
    unreadBody: () => undefined,
  };
  return request as HttpRequest;
}

interface SignOptions {
  readonly offer?: Offer;
  readonly authorization?: Partial<SignedAuthorization["authorization"]>;
  readonly edit?: (payload: PaymentPayload) => PaymentPayload;
}

/** Signs a version 2 payment for an offer. */
export async function signedPayload(options: SignOptions = {}): Promise<PaymentPayload> {
  const { offer = offersOf()[0] as Offer, ...rest } = options;
  const required = { x402Version: 2, resource: { url: "http://a" }, accepts: [toRequirements(offer)] };
  return (await signV2Payment({ offer: required, account: accounts.payer, ...rest })).payload;
}

/** Returns the same payment as a client of {@link OTHER_VERSION} sends it. */
export function inOther({ payload }: PaymentPayload) {
  return { x402Version: 1, scheme: "exact", network: "other-84532", payload };
}

/** Reads a payload from a request header. */
export function read(payload: unknown, header = "payment-signature", methods = METHODS): SignedPayment {
  const payment = readPayment(requestWith([[header, base64Json(payload)]]), methods);
  if (payment === undefined) throw new Error("the request carries no payment");
  return payment;
}
