import type { PaymentRequirements } from "@x402/core/types";
import { Refusal } from "../../commands/input.ts";
import { option } from "../../commands/options.ts";
import { networkName, TOKEN_PRESETS } from "../../config/token-presets.ts";
import { parseNetwork } from "../../config/value-types.ts";
import { amountText } from "../../core/amounts.ts";

/** A way to pay, as the 402 has it. */
export type Offer = PaymentRequirements;

const CHARGINGS = ["fixed", "used"] as const;

/** When a job is charged: its price before it runs, or what it used afterwards. */
export type Charging = (typeof CHARGINGS)[number];

/** Makes the option --charge. */
export const chargeOption = () =>
  option(
    "--charge <when>",
    "pay in this way only: the price before the job (fixed), or what it used, up to the price, after it (used); without it, fixed where both are offered",
  ).choices(CHARGINGS);

/** Returns the offers within --max, --network and --charge. @throws Refusal when there is none */
export function payableOffers(
  offers: readonly Offer[],
  { max, network, charge }: { readonly max?: string; readonly network?: string; readonly charge?: Charging },
): Offer[] {
  const onNetwork = offers.filter((offer) => network === undefined || networkOf(offer) === network);
  if (network !== undefined && onNetwork.length === 0) {
    const known = [...new Set(offers.map((offer) => networkName(networkOf(offer))))].join(", ");
    throw new Refusal([`The job is not offered on ${networkName(network)}; expected one of ${known}`]);
  }
  const there = onNetwork.filter((offer) => charge === undefined || chargingOf(offer) === charge);
  if (charge !== undefined && there.length === 0) {
    const known = [...new Set(onNetwork.map(chargingOf))].join(", ");
    throw new Refusal([`The job is not offered with --charge ${charge}; expected ${known}`]);
  }
  const payable = there.filter(
    (offer) => max === undefined || BigInt(amountOf(offer)) <= unitsOf(max, offer),
  );
  const isUsed = (offer: Offer) => Number(chargingOf(offer) === "used");
  if (payable.length > 0) return payable.sort((one, other) => isUsed(one) - isUsed(other));
  const prices = [...new Set(there.map(priceOf))].join(" or ");
  throw new Refusal([`The job costs ${prices}, which is more than --max ${max}`]);
}

function chargingOf({ scheme }: Offer): Charging {
  return hasCeiling({ scheme }) ? "used" : "fixed";
}

/** CAIP-2. Version 1 has names for networks. */
export function networkOf({ network }: Pick<Token, "network">): string {
  return parseNetwork(network) ?? network;
}

/** Returns true for an offer whose amount is a ceiling. */
export function hasCeiling({ scheme }: Pick<Offer, "scheme">): boolean {
  return scheme !== "exact";
}

/** Returns the amount of an offer as text; of some offers, it is a ceiling. */
export function priceOf(offer: Offer): string {
  const amount = tokenText({ ...offer, amount: amountOf(offer) });
  return hasCeiling(offer) ? `up to ${amount}` : amount;
}

interface Token {
  readonly network: string;
  readonly asset: string;
}

/** Text of an amount in base units: with decimals if jobgate knows the token. */
export function tokenText({
  amount,
  symbol,
  ...token
}: Token & { readonly amount: string; readonly symbol?: string }) {
  const preset = presetOf(token);
  return amountText(amount, preset?.symbol ?? symbol ?? token.asset, preset?.decimals);
}

/** Amount of an offer in base units. Version 1 has another name for it. */
function amountOf(offer: Offer & { readonly maxAmountRequired?: string }): string {
  return offer.amount ?? offer.maxAmountRequired;
}

/** Returns an amount of --max in units of the offer's token, rounded down. */
function unitsOf(max: string, offer: Offer): bigint {
  const decimals = presetOf(offer)?.decimals ?? 0;
  const [whole = "", fraction = ""] = max.split(".");
  return BigInt(whole + fraction.slice(0, decimals).padEnd(decimals, "0"));
}

function presetOf(token: Token) {
  const asset = token.asset.toLowerCase();
  return TOKEN_PRESETS.find(
    (preset) => preset.network === networkOf(token) && preset.asset.toLowerCase() === asset,
  );
}
