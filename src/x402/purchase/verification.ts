import { priceText } from "../../core/amounts.ts";
import { GatewayError } from "../../core/errors.ts";
import { oneSpelling, type PaymentIntent, type PaymentKey } from "../../core/payment.ts";
import type { JobRequest } from "../../http/request.ts";
import type { FacilitatorRequest } from "../facilitators/facilitator.ts";
import type { Facilitators } from "../facilitators/facilitators.ts";
import type { JobDescriptions } from "../jobs/job-descriptions.ts";
import type { SignedPayment } from "../methods/method.ts";
import type { ConfirmedPrice } from "../prices/price.ts";
import type { ChainEvidence } from "../settlement/chain-evidence.ts";
import type { PayerFunds } from "../settlement/payer-funds.ts";
import { type PurchaseIdentity, successResponse } from "../settlement/payment-outcome.ts";
import type { PurchaseNonce } from "../settlement/settlement.ts";
import { type Offer, toRequirements } from "../wire/offer.ts";
import { VERSION_2 } from "../wire/version.ts";
import type { ClientLimits } from "./client-limits.ts";

/** A payment that a facilitator verified. */
export interface VerifiedPayment {
  readonly offer: Offer;
  /** Name of the facilitator that will settle; undefined if the payment is already paid. */
  readonly facilitator: string | undefined;
  /** Transaction that paid an adopted payment. */
  readonly paidIn?: string;
  /** Further fields of the settlement of a payment that is paid by its journal entry alone. */
  readonly settlement?: object;
  readonly requirements: FacilitatorRequest["requirements"];
  /** Block of the token's chain at which the search for the settlement starts; undefined if the chain cannot be queried. */
  readonly fromBlock: bigint | undefined;
  /** Token units that the payer of a payment that is charged after its job can pay; undefined if the amount is not known. */
  readonly funds: bigint | undefined;
  /** Monotonic time at which reading the funds began. */
  readonly fundsReadAt: number;
}

interface Parts {
  readonly facilitators: Facilitators;
  readonly evidence: ChainEvidence;
  readonly funds: PayerFunds;
  readonly descriptions: JobDescriptions;
  readonly limits: ClientLimits;
}

/** Queries the chain and a facilitator to verify that a payment for an offer would settle. Moves no money. */
export class Verification {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** @throws GatewayError for every refusal */
  async verify(payment: SignedPayment, offer: Offer, request: JobRequest): Promise<VerifiedPayment> {
    const { limits } = this.#parts;
    const requirements = this.requirementsOf(payment, offer);
    const fundsReadAt = performance.now();
    const checked = (await payment.method.check?.(payment, offer)) ?? "unpaid";
    if (checked !== "unpaid") {
      if ("invalid" in checked) throw new GatewayError("payment_invalid", `${checked.invalid}.`);
      const nothing = { facilitator: undefined, fromBlock: undefined, funds: undefined };
      return { ...{ offer, requirements, fundsReadAt, ...nothing }, settlement: checked.settlement };
    }
    return limits.whileVerifying(request, async () => {
      const verification = this.#askFacilitators(payment, requirements);
      // The chain's result is used first. A facilitator also refuses a used authorization, but only the chain shows that the
      // payer was charged.
      verification.catch(() => undefined);
      const [fromBlock, funds] = await Promise.all([
        this.#startBlock(offer),
        this.#findFunds(payment, offer),
        this.#requireUnused(payment, offer),
      ]);
      return { offer, requirements, fromBlock, funds, fundsReadAt, facilitator: await verification };
    });
  }

  /** Returns the offer in the protocol version of the payment. */
  requirementsOf({ version }: SignedPayment, offer: Offer): VerifiedPayment["requirements"] {
    if (version === VERSION_2) return toRequirements(offer);
    const job = this.#parts.descriptions.withOffers(offer.job, [offer]);
    return version.requirementsOf(offer, job) ?? toRequirements(offer);
  }

  /**
   * Does not throw if the chain cannot be queried.
   * @throws GatewayError `authorization_used` if the chain shows the authorization as used; `facilitator_unavailable` if the
   *   chain can never show it
   */
  async #requireUnused(payment: SignedPayment, offer: Offer): Promise<void> {
    const { evidence } = this.#parts;
    const { fingerprint, payload, validBefore } = payment;
    const { transferMethod, payTo } = offer.token;
    const use = await evidence
      .findEarlierUse({
        key: paymentKey(payment, offer),
        transferMethod,
        fingerprint,
        payload: textOf(payload),
        payTo: oneSpelling(payTo),
        amount: offer.amount,
        validBefore: storableSeconds(validBefore),
      })
      .catch((error: unknown) => {
        if (error instanceof GatewayError) throw error;
        // The search for the settlement then goes back to the earliest time at which the authorization could be used.
        return undefined;
      });
    if (use === undefined) return;
    throw new GatewayError(
      "authorization_used",
      "The chain shows that this authorization was used before: sign a new one. It may have paid for something else.",
      { details: { charged: "unknown", ...use } },
    );
  }

  /** A facilitator compares the payer's balance with one payment, but the payer may have several open payments. */
  async #findFunds(payment: SignedPayment, offer: Offer): Promise<bigint | undefined> {
    if (offer.charge === undefined) return undefined;
    const { transferMethod } = offer.token;
    const payload = textOf(payment.payload);
    return this.#parts.funds.find({ key: paymentKey(payment, offer), transferMethod, payload });
  }

  /** Returns the name of the facilitator that verified the payment. */
  async #askFacilitators(
    { payload, from }: SignedPayment,
    requirements: FacilitatorRequest["requirements"],
  ): Promise<string> {
    const verification = await this.#parts.facilitators.verify({ payload, requirements });
    if (verification.kind === "invalid") {
      throw new GatewayError(
        "payment_invalid",
        `The facilitator refused the payment: ${verification.reason}.`,
        { cause: verification.reason },
      );
    }
    if (verification.payer !== undefined && oneSpelling(verification.payer) !== from) {
      throw new GatewayError("payment_invalid", "The facilitator names another payer than the payment does.");
    }
    return verification.facilitator;
  }

  /** Returns the head of the token's chain. If the chain has to confirm the settlement, it must be reachable now. */
  async #startBlock({ token }: Offer): Promise<bigint | undefined> {
    const { evidence } = this.#parts;
    if (!evidence.covers(token)) return undefined;
    try {
      return await evidence.startBlock(token);
    } catch (cause) {
      if (!evidence.isRequired(token)) return undefined;
      throw new GatewayError(
        "facilitator_unavailable",
        "The payment's chain cannot be queried now, so a settlement could not be confirmed. Nothing was charged: try again.",
        { cause, headers: { "retry-after": "2" } },
      );
    }
  }
}

export function paymentKey({ from, nonce }: SignedPayment, { token }: Offer): PaymentKey {
  return { network: token.network, asset: oneSpelling(token.asset), payer: from, nonce };
}

/** Bounds a signed value, which may be up to 2^256 - 1, to what the store can hold: 285 million years. */
export function storableSeconds(seconds: bigint): number {
  return Math.min(Number(seconds), Number.MAX_SAFE_INTEGER);
}

const texts = new WeakMap<object, string>();

/** Returns a payload, or requirements, as JSON. Requirements of an offer are the same for many payments. */
function textOf(value: object): string {
  let text = texts.get(value);
  if (text === undefined) {
    text = JSON.stringify(value);
    texts.set(value, text);
  }
  return text;
}

/**
 * Returns requirements as JSON; undefined if they are the payload's `accepted`, as is nearly always the case, because they
 * would be a fifth of a payment's row.
 */
function requirementsText(requirements: object, payload: SignedPayment["payload"]): string | undefined {
  const text = textOf(requirements);
  const { accepted } = payload as { readonly accepted?: unknown };
  return JSON.stringify(accepted) === text ? undefined : text;
}

interface Bought {
  readonly payment: SignedPayment;
  readonly identity: PurchaseIdentity;
  readonly confirmed: ConfirmedPrice;
  readonly nonces: readonly PurchaseNonce[];
}

/** Returns the intent that is journalled before a payment is settled. */
export function toIntent(
  { payment, identity, confirmed, nonces }: Bought,
  { offer, requirements, fromBlock, facilitator, paidIn, settlement }: VerifiedPayment,
): PaymentIntent {
  const { token, amount, rate, priceWei, currency, charge } = offer;
  const { serviceId, jobIndex, fingerprint, purchaseName, bodyHash, boundHeaders, notes } = identity;
  const key = paymentKey(payment, offer);
  // The object is built without a spread, because V8 takes ten times as long to add the other fields to a spread object.
  return {
    serviceId,
    jobIndex,
    fingerprint,
    purchaseName,
    bodyHash,
    boundHeaders,
    notes,
    key,
    x402Version: payment.version.number,
    payload: textOf(payment.payload),
    requirements: requirementsText(requirements, payment.payload),
    facilitator,
    transferMethod: token.transferMethod,
    payTo: oneSpelling(token.payTo),
    amount,
    symbol: token.symbol,
    price: currency === "USD" ? priceText({ unit: "usd", amount: priceWei }) : priceWei.toString(),
    rate,
    decimals: token.decimals,
    validBefore: storableSeconds(payment.validBefore),
    receipt: confirmed.digest,
    fromBlock: fromBlock?.toString(),
    oneTimeNonces: nonces.length === 0 ? undefined : nonces.map(({ nonce }) => nonce),
    onFailure: offer.onFailure,
    // An adopted payment has moved its money.
    charge: (paidIn === undefined && settlement === undefined ? charge?.kind : undefined) ?? "before",
    minCharge: charge?.minCharge,
    chargesBack: offer.chargesBack === undefined ? undefined : true,
    settlement:
      settlement &&
      JSON.stringify(Object.assign(successResponse({ key, amount, charge: "before" }, ""), settlement)),
  };
}
