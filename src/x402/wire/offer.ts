import type {
  PaymentRequired,
  PaymentRequirements,
  ResourceInfo,
  SchemeNetworkFacilitator,
} from "@x402/core/types";
import { isEvm } from "../../chain/chain-client.ts";
import type { AcceptedToken, LeastCharge } from "../../config/config.ts";
import { amountAt, MAX_U64, type UnitsPerWei, unitsPerWei } from "../../core/amounts.ts";
import type { JobKey } from "../../core/job-call.ts";
import { type ChargeKind, EIP3009, isPartial, type PaymentIntent } from "../../core/payment.ts";
import type { TokenRates } from "../prices/token-rates.ts";

/**
 * An x402 scheme other than `exact`. The amount of its offers is a ceiling. After the job, the runner names the charge, up
 * to the ceiling. Only one account can settle a payment, and the payer signs its address.
 */
export interface CeilingScheme {
  /** Name in offers. */
  readonly name: string;
  /** Returns the fields of an offer's `extra` that name the settling account. */
  extraFor(facilitatorAddress: string): Readonly<Record<string, string>>;
  /** Reads the settling account from the `extra` of an offer, or of a kind that a facilitator supports. */
  facilitatorAddressIn(extra: Readonly<Record<string, unknown>> | undefined): string | undefined;
  /**
   * Returns the code that verifies and settles payments in this process.
   * @param signer the SDK's signer for `exact`; the options are also the SDK's. They are untyped, because users of the API
   *   do not have the package with their types
   */
  settledBy(signer: object, options: object): Pick<SchemeNetworkFacilitator, "verify" | "settle">;
}

/** A way to pay for one run of a job: a token and its exact amount. */
export interface Offer {
  readonly job: JobKey;
  /** Amount in wei, or in 10^-18 of the currency if there is one. */
  readonly priceWei: bigint;
  /** Currency of a price that tokens pegged to it pay one to one. */
  readonly currency?: "USD" | undefined;
  /** Digest that every purchase at the offer has. Undefined if each purchase has its own digest. */
  readonly digest?: string | undefined;
  /** Unix seconds at which the price ends, and the offer with it. */
  readonly endSecs?: number | undefined;
  /** The price is for a run in a trusted execution environment. */
  readonly confidentiality?: "tee" | undefined;
  /** Promise to the buyer of a job that fails. Undefined if the seller keeps the money. */
  readonly onFailure?: PaymentIntent["onFailure"] | undefined;
  readonly token: OfferedToken;
  /** Token units, decimal. */
  readonly amount: string;
  /** Whole tokens for one unit of the price's currency. */
  readonly rate: string;
  /** Lifetime of the offer, and the longest lifetime of a signed payment without {@link charge}. */
  readonly ttlSecs: number;
  /** Charge that comes after the job ran. Undefined if the whole amount is charged before. */
  readonly charge?: LateCharge | undefined;
  /** Charge to which the method lowers the amount once the job has ended. Undefined if nothing is charged back. */
  readonly chargesBack?: ChargeBack | undefined;
  /** x402 scheme, unless {@link charge} has a scheme. Undefined means `exact`. */
  readonly scheme?: string | undefined;
  /** Further fields of the offer's `extra`, which clients that name the whole offer send back. */
  readonly extra?: Readonly<Record<string, unknown>> | undefined;
}

/** Charge that comes before a job runs, and is lowered after it. */
interface ChargeBack {
  readonly kind: ChargeKind;
  /** x402 scheme in the runner's metadata. */
  readonly scheme: string;
}

/** Charge that comes after a job ran. */
interface LateCharge {
  readonly kind: ChargeKind;
  /** Time that the run and the settlement may take. A signed payment outlives the offer by this time. */
  readonly runSecs: number;
  /** x402 scheme; undefined for `exact`. With any other scheme, `amount` is a ceiling, and the runner names the charge. */
  readonly scheme?: string | undefined;
  /** Fields that the charge adds to the offer's `extra`: the address of the only account that can settle, if there is one. */
  readonly extra?: Readonly<Record<string, string>> | undefined;
  /** Token units: see {@link "../../core/payment.ts".PaymentIntent}. */
  readonly minCharge?: string | undefined;
}

/** Terms of a job that is charged after it ran. */
export interface ChargeTerms {
  readonly kinds: readonly ChargeKind[];
  /** Names of the transfer methods that can charge less than the payer signed. */
  readonly methods: ReadonlySet<string>;
  /** Time that the run and the settlement may take. */
  readonly runSecs: number;
  /**
   * Time for transfer methods whose payments expire soon, by method. It is undefined if such a payment expires before the
   * job could run.
   */
  readonly runSecsOf?: ReadonlyMap<string, number | undefined>;
  readonly leastCharge?: LeastCharge | undefined;
  /** Undefined if the runner names no charge. */
  readonly scheme?: CeilingScheme | undefined;
  /** Accounts that settle by the scheme, by network. */
  readonly facilitatorAddresses: ReadonlyMap<string, string>;
}

/** Description of a job in its 402. */
export interface JobDescription {
  readonly resource: ResourceInfo & {
    /** Size of the job's largest result. Undefined means the default size. */
    readonly maxResultBytes?: number;
    /** Undefined if results are kept. */
    readonly storeAnswers?: false;
  };
  readonly extensions: NonNullable<PaymentRequired["extensions"]>;
}

export interface OfferTerms extends Omit<Offer, "token" | "amount" | "rate" | "charge"> {
  readonly tokens: readonly AcceptedToken[];
  /** Undefined if the job is charged before it runs. */
  readonly charge?: ChargeTerms | undefined;
}

/** Returns the whole seconds until a time in Unix seconds; 0 when it has passed. */
export function secsUntil(endSecs: number, nowMs: number): number {
  return Math.max(0, Math.floor(endSecs - nowMs / 1000));
}

/** Each token's last fraction. Every request needs it, and parsing a rate takes ten times longer than the division. */
const fractions = new WeakMap<
  AcceptedToken,
  { readonly ratePerNativeUnit: string; readonly of: UnitsPerWei }
>();

/** Returns the price in token units; undefined while the token has no rate. */
export function amountIn(
  token: AcceptedToken,
  priceWei: bigint,
  rates: Pick<TokenRates, "rateOf">,
): bigint | undefined {
  const rate = rates.rateOf(token);
  if (rate === undefined) return undefined;
  const { ratePerNativeUnit } = rate;
  let fraction = fractions.get(token);
  if (fraction?.ratePerNativeUnit !== ratePerNativeUnit) {
    const { markupBps, decimals } = token;
    fraction = { ratePerNativeUnit, of: unitsPerWei({ ratePerNativeUnit, markupBps, decimals }) };
    fractions.set(token, fraction);
  }
  return amountAt(fraction.of, priceWei);
}

/** Returns true if a payment can have the amount. 0 would give the job away, and wallets cannot pay more than u64. */
export function isPayable(amount: bigint): boolean {
  return amount > 0n && amount <= MAX_U64;
}

/**
 * Makes an offer in each token, in the configured order. Skips tokens without a current rate, and tokens in which the amount
 * cannot be paid.
 */
export function makeOffers(
  { tokens, charge, ...terms }: OfferTerms,
  rates: Pick<TokenRates, "rateOf">,
): Offer[] {
  return tokens.flatMap((token) => {
    const amount = amountIn(token, terms.priceWei, rates);
    const rate = rates.rateOf(token)?.ratePerNativeUnit;
    if (amount === undefined || rate === undefined || !isPayable(amount)) return [];
    const { scheme, extraFor, unusedPromise } = token.offered ?? {};
    const exact: Offer = {
      ...terms,
      amount: amount.toString(),
      rate,
      token: toOfferedToken(token),
      ...(extraFor && { scheme, extra: { ...extraFor(amount), ...terms.extra } }),
    };
    if (charge === undefined) return [exact];
    if (unusedPromise !== undefined) return [chargedBack(exact, charge, unusedPromise)];
    const before = charge.kinds.includes("before") ? [exact] : [];
    // Only the chain shows how much the payer can still pay, and the outcome of a charge.
    return token.rpcUrl === undefined || scheme !== undefined
      ? before
      : [...lateOffers(exact, charge), ...before];
  });
}

/** Returns the offer of a method that charges the amount before the job, and charges back the unused part. */
function chargedBack(exact: Offer, { kinds, scheme }: ChargeTerms, onFailure: string): Offer {
  const partial = scheme && kinds.find(isPartial);
  if (scheme !== undefined && partial !== undefined)
    return { ...exact, onFailure, chargesBack: { kind: partial, scheme: scheme.name } };
  if (!kinds.includes("after")) return exact;
  return { ...exact, onFailure, chargesBack: { kind: "after", scheme: "exact" } };
}

/** A job that fails is not charged, so there is nothing to promise. */
function lateOffers({ onFailure: _, ...exact }: Offer, terms: ChargeTerms): Offer[] {
  const { kinds, runSecsOf } = terms;
  const { transferMethod } = exact.token;
  const runSecs = runSecsOf?.has(transferMethod) ? runSecsOf.get(transferMethod) : terms.runSecs;
  if (runSecs === undefined) return [];
  const ceilings = kinds.filter(isPartial).flatMap((kind) => chargedInPart(exact, kind, terms) ?? []);
  const after = kinds.includes("after") ? [{ ...exact, charge: { kind: "after", runSecs } }] : [];
  return [...ceilings, ...after];
}

/** Returns undefined if no facilitator settles a part of the amount in this token or on this network. */
function chargedInPart(exact: Offer, kind: ChargeKind, terms: ChargeTerms): Offer | undefined {
  const { scheme, methods, runSecs, leastCharge, facilitatorAddresses } = terms;
  const address = facilitatorAddresses.get(exact.token.network);
  if (scheme === undefined || address === undefined || !methods.has(exact.token.transferMethod))
    return undefined;
  const { name, extraFor } = scheme;
  const minCharge = leastCharge?.(exact);
  return { ...exact, charge: { kind, scheme: name, extra: extraFor(address), runSecs, minCharge } };
}

/** Longest lifetime of a payment that is signed for the offer. */
export function timeoutSecs({ ttlSecs, charge }: Offer): number {
  return ttlSecs + (charge?.runSecs ?? 0);
}

/** Returns the offer with its lifetime limited by the end of its price; undefined once the price has ended. */
export function atTime(offer: Offer, nowMs: number): Offer | undefined {
  if (offer.endSecs === undefined) return offer;
  const ttlSecs = Math.min(offer.ttlSecs, secsUntil(offer.endSecs, nowMs));
  return ttlSecs > 0 ? { ...offer, ttlSecs } : undefined;
}

/** Formats an offer for the store. */
export function formatOffer(offer: Offer): string {
  const { job, priceWei } = offer;
  return JSON.stringify({
    ...offer,
    priceWei: priceWei.toString(),
    job: { serviceId: job.serviceId.toString(), jobIndex: job.jobIndex },
  });
}

/** Parses what {@link formatOffer} returned. */
export function parseOffer(text: string): Offer {
  const { job, priceWei, ...rest } = JSON.parse(text);
  return {
    ...rest,
    priceWei: BigInt(priceWei),
    job: { serviceId: BigInt(job.serviceId), jobIndex: job.jobIndex },
  };
}

/** Returns the offer's scheme of x402. */
export function schemeOf({ charge, scheme = "exact" }: Pick<Offer, "charge" | "scheme">): string {
  return charge?.scheme ?? scheme;
}

/** Returns the time and amount of an offer's charge. */
export function chargeKindOf({ charge, chargesBack }: Pick<Offer, "charge" | "chargesBack">): ChargeKind {
  return (charge ?? chargesBack)?.kind ?? "before";
}

/** Results of {@link toRequirements}, cached because many payments are for one offer. */
const requirements = new WeakMap<Offer, PaymentRequirements>();

/** Returns the offer in the current version: as a client finds it in a 402 and as the facilitator gets it with the payment. */
export function toRequirements(offer: Offer): Readonly<PaymentRequirements> {
  let made = requirements.get(offer);
  if (made === undefined) {
    made = makeRequirements(offer);
    requirements.set(offer, made);
  }
  return made;
}

function makeRequirements(offer: Offer): PaymentRequirements {
  const { token, amount, charge } = offer;
  return {
    scheme: schemeOf(offer),
    network: token.network,
    amount,
    asset: token.asset,
    payTo: token.payTo,
    maxTimeoutSeconds: timeoutSecs(offer),
    extra: { ...extraOf(token), ...charge?.extra, ...offer.extra },
  };
}

/** A token in an offer. It has no RPC address, because offers are stored and the address may contain a key. */
type OfferedToken = Pick<
  AcceptedToken,
  "network" | "asset" | "symbol" | "decimals" | "payTo" | "transferMethod" | "eip3009"
>;

/** Returns the fields of a token that an offer contains. */
function toOfferedToken(token: OfferedToken): OfferedToken {
  const { network, asset, symbol, decimals, payTo, transferMethod, eip3009 } = token;
  return { network, asset, symbol, decimals, payTo, transferMethod, ...(eip3009 && { eip3009 }) };
}

/** Returns the name of a token's transfer method where clients read it; undefined for EIP-3009, which is the default. */
export function offeredMethod({ transferMethod }: Pick<OfferedToken, "transferMethod">): string | undefined {
  return transferMethod === EIP3009.name ? undefined : transferMethod;
}

/** Returns the fields of an x402 offer's `extra` for a token on an EVM chain: its EIP-712 domain, and its transfer method. */
export function extraOf(token: {
  /** Undefined means an EVM chain. */
  readonly network?: string;
  readonly eip3009?: OfferedToken["eip3009"] | undefined;
  readonly transferMethod: string;
}): Record<string, string> {
  if (token.network !== undefined && !isEvm(token.network)) return {};
  const assetTransferMethod = offeredMethod(token);
  return { ...token.eip3009, ...(assetTransferMethod !== undefined && { assetTransferMethod }) };
}
