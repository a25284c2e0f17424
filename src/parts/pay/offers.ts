import type { PaymentRequirements } from "@x402/core/types";
import { Refusal } from "../../commands/input.ts";
import { option } from "../../commands/options.ts";
import type { KnownTokens } from "./known-tokens.ts";

/** A way to pay, as the 402 has it. */
export type Offer = PaymentRequirements;

/** Reports whether an offer is paid from a channel. */
const isOfChannel = ({ scheme }: Pick<Offer, "scheme">) => scheme === "batch-settlement";

const CHARGINGS = ["fixed", "used"] as const;

/** Time and amount of a job's charge: its price before it runs, or what it used afterwards. */
export type Charging = (typeof CHARGINGS)[number];

/** Makes the option --charge. */
export const chargeOption = () =>
  option(
    "--charge <when>",
    "pay in this way only: the price before the job (fixed), or what it used, up to the price, after it (used); without it, fixed where both are offered",
  ).choices(CHARGINGS);

/** Returns the offers on the network of --network. @throws Refusal when there is none */
export function offersOn(
  network: string | undefined,
  offers: readonly Offer[],
  tokens: KnownTokens,
): readonly Offer[] {
  if (network === undefined) return offers;
  const there = offers.filter((offer) => tokens.networkOf(offer) === network);
  if (there.length > 0) return there;
  throw new Refusal([
    `The job is not offered on ${tokens.nameOf({ network })}; expected one of ${networksOf(offers, tokens)}`,
  ]);
}

/** Returns the names of the networks of offers. */
export function networksOf(offers: readonly Offer[], tokens: KnownTokens): string {
  return [...new Set(offers.map((offer) => tokens.nameOf(offer)))].join(", ");
}

/**
 * Returns the offers that are paid from channels, or the other offers.
 * @throws Refusal when there is none
 */
export function offersBy(way: "channel" | "payment", offers: readonly Offer[]): readonly Offer[] {
  const found = offers.filter((offer) => isOfChannel(offer) === (way === "channel"));
  if (found.length > 0 || offers.length === 0) return found;
  throw new Refusal([
    way === "channel"
      ? "The job is not sold from payment channels; leave out --deposit"
      : "The job is sold from payment channels alone; expected --deposit",
  ]);
}

/** Returns the offers within --max and --charge. @throws Refusal when there is none */
export function payableOffers(
  offers: readonly Offer[],
  { max, charge }: { readonly max?: string; readonly charge?: Charging },
  tokens: KnownTokens,
): Offer[] {
  const there = offers.filter((offer) => charge === undefined || chargingOf(offer) === charge);
  if (charge !== undefined && there.length === 0) {
    const known = [...new Set(offers.map(chargingOf))].join(", ");
    throw new Refusal([`The job is not offered with --charge ${charge}; expected ${known}`]);
  }
  const payable = there.filter(
    (offer) => max === undefined || BigInt(amountOf(offer)) <= unitsOf(max, tokens.decimalsOf(offer)),
  );
  const isUsed = (offer: Offer) => Number(chargingOf(offer) === "used");
  if (payable.length > 0) return payable.sort((one, other) => isUsed(one) - isUsed(other));
  const prices = [...new Set(there.map((offer) => priceOf(offer, tokens)))].join(" or ");
  throw new Refusal([`The job costs ${prices}, which is more than --max ${max}`]);
}

function chargingOf({ scheme }: Offer): Charging {
  return hasCeiling({ scheme }) ? "used" : "fixed";
}

/** Returns true for an offer whose amount is a ceiling. */
export function hasCeiling({ scheme }: Pick<Offer, "scheme">): boolean {
  return scheme === "upto";
}

/** Returns the amount of an offer as text; of some offers, it is a ceiling. */
export function priceOf(offer: Offer, tokens: KnownTokens): string {
  const amount = tokens.text({ network: offer.network, asset: offer.asset, amount: amountOf(offer) });
  return hasCeiling(offer) ? `up to ${amount}` : amount;
}

/** Amount of an offer in base units. Version 1 has another name for the field. */
function amountOf(offer: Offer & { readonly maxAmountRequired?: string }): string {
  return offer.amount ?? offer.maxAmountRequired;
}

/** Returns an amount of --max or --deposit in units of the offer's token, rounded down. */
export function unitsOf(max: string, decimals = 0): bigint {
  const [whole = "", fraction = ""] = max.split(".");
  return BigInt(whole + fraction.slice(0, decimals).padEnd(decimals, "0"));
}
