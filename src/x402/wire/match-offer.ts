import { GatewayError } from "../../core/errors.ts";
import { oneSpelling } from "../../core/payment.ts";
import type { SignedPayment, SignedToken } from "../methods/method.ts";
import { type Offer, timeoutSecs } from "./offer.ts";

/** Remaining lifetime that a payment needs in order to be verified, settled and mined. */
const MIN_SECONDS_LEFT = 6;
/** Time by which an authorization may outlive the offer's `maxTimeoutSeconds`. */
const MAX_SECONDS_OVER = 3_600;

/**
 * Returns the offer that a payment answers. Facilitators choose what to do by the payload's shape, and settle less than
 * the offer asks for. So this function compares the signed values with the offer before any facilitator sees the
 * payment.
 * @param offers offers that are payable at `nowMs`
 * @throws GatewayError `payment_mismatch`
 */
export async function matchOffer(
  payment: SignedPayment,
  offers: readonly Offer[],
  nowMs: number,
): Promise<Offer> {
  const named = offers
    .map((offer) => withFresh(offer, payment))
    .filter((offer) => payment.version.names(payment, offer));
  if (named.length === 0) {
    throw mismatch(
      "The payment answers no open offer for this job: scheme, network, asset, amount, payTo or extra differ.",
    );
  }
  const { method } = payment;
  const fitting = named.filter(({ token }) => token.transferMethod === method.name);
  if (fitting.length === 0) {
    const wanted = named[0]?.token.transferMethod;
    throw mismatch(`The offer asks for ${wanted}, but the payload is ${method.name}.`);
  }
  const paid = fitting.filter((offer) => method.pays(payment, offer));
  if (paid.length === 0) {
    throw mismatch(
      `The signed authorization does not pay the offer: its ${method.compared} or its exact amount differs.`,
    );
  }
  const minSecs = Math.min(...paid.map(({ charge }) => charge?.runSecs ?? MIN_SECONDS_LEFT));
  if (method.isEndless?.(payment) !== true)
    checkTimeWindow(payment, { minSecs, maxTimeoutSecs: Math.max(...paid.map(timeoutSecs)) }, nowMs);
  return paid.length === 1 && paid[0] ? paid[0] : pickBySignature(payment, paid);
}

/**
 * Returns an offer with the fields that were made for the payment's own 402. The method compares them with the signed
 * values.
 */
function withFresh(offer: Offer, { accepted, method }: SignedPayment): Offer {
  const { fresh, name } = method;
  if (fresh === undefined || fresh.keys.length === 0 || offer.token.transferMethod !== name) return offer;
  const sent = Object.entries(accepted?.extra ?? {}).filter(
    (field): field is [string, string] => fresh.keys.includes(field[0]) && typeof field[1] === "string",
  );
  return { ...offer, extra: { ...offer.extra, ...Object.fromEntries(sent) } };
}

function checkTimeWindow(
  { validAfter, validBefore }: SignedPayment,
  { minSecs, maxTimeoutSecs }: { readonly minSecs: number; readonly maxTimeoutSecs: number },
  nowMs: number,
): void {
  const now = BigInt(nowMs);
  if (validAfter * 1000n > now)
    throw mismatch("The authorization is not valid yet: sign one with an earlier validAfter.");
  if (validBefore * 1000n <= now) throw mismatch("The authorization has expired: sign a new one.");
  if (validBefore * 1000n - now < BigInt(minSecs * 1000)) {
    const advice = minSecs > MIN_SECONDS_LEFT ? "one that lasts as long as the job" : "a new one";
    throw mismatch(`The authorization expires in under ${minSecs} seconds: sign ${advice}.`);
  }
  // A payment cannot be decided as unpaid while its authorization is valid, so an authorization without an end could stay undecided.
  const maxSecs = maxTimeoutSecs + MAX_SECONDS_OVER;
  if (validBefore * 1000n - now > BigInt(maxSecs * 1000)) {
    throw mismatch(`The authorization expires in over ${maxSecs} seconds: sign one that ends sooner.`);
  }
}

/**
 * Returns the offer in the token whose EIP-712 domain the payer signed. A payment that does not name its token could be
 * for any token of its network that has an offer with the same amount. For a smart account, no signer can be recovered,
 * so the first offer is used.
 */
async function pickBySignature(payment: SignedPayment, offers: readonly Offer[]): Promise<Offer> {
  for (const offer of offers) {
    if (await isSignedByPayer(payment, [offer.token])) return offer;
  }
  return offers[0] as Offer;
}

function mismatch(message: string): GatewayError {
  return new GatewayError("payment_mismatch", message);
}

/**
 * Checks, without any query, that the payer signed the payment in one of these tokens and to its recipient. Another
 * seller could have sent a payment that was signed for that seller. Price and time are not checked. Returns false for a
 * smart account, because no signer can be recovered.
 */
export async function isSignedByPayer(
  payment: SignedPayment,
  tokens: readonly SignedToken[],
): Promise<boolean> {
  const { method, accepted, to, from } = payment;
  for (const token of tokens) {
    const isNamed =
      accepted === undefined ||
      (accepted.network === token.network && oneSpelling(accepted.asset) === oneSpelling(token.asset));
    if (!isNamed || method.name !== token.transferMethod) continue;
    if (to !== (method.recipientOf?.(token) ?? oneSpelling(token.payTo))) continue;
    const signer = await method.recoverSigner(payment, token).catch(() => undefined);
    if (signer !== undefined && oneSpelling(signer) === from) return true;
  }
  return false;
}
