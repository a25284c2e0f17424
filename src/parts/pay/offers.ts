import type { PaymentRequirements } from "@x402/core/types";
import { Refusal } from "../../commands/input.ts";
import { TOKEN_PRESETS } from "../../config/token-presets.ts";
import { parseNetwork } from "../../config/value-types.ts";
import { amountText } from "../../core/amounts.ts";

/** A way to pay, as the 402 has it. */
export type Offer = PaymentRequirements;

/** Returns the offers within --max and --network. @throws Refusal when there is none */
export function payableOffers(
  offers: readonly Offer[],
  { max, network }: { readonly max?: string; readonly network?: string },
): Offer[] {
  const there = offers.filter((offer) => network === undefined || networkOf(offer) === network);
  if (there.length === 0) {
    const known = [...new Set(offers.map(networkOf))].join(", ");
    throw new Refusal([`The job is not offered on ${network}; expected one of ${known}`]);
  }
  const payable = there.filter(
    (offer) => max === undefined || BigInt(amountOf(offer)) <= unitsOf(max, offer),
  );
  if (payable.length > 0) return payable;
  const prices = [...new Set(there.map(priceOf))].join(" or ");
  throw new Refusal([`The job costs ${prices}, which is more than --max ${max}`]);
}

/** CAIP-2. Version 1 has names for networks. */
export function networkOf({ network }: Pick<Token, "network">): string {
  return parseNetwork(network) ?? network;
}

/** Amount of an offer for people: the ceiling of one that is paid by use. */
export function priceOf(offer: Offer): string {
  const amount = tokenText({ ...offer, amount: amountOf(offer) });
  return offer.scheme === "upto" ? `up to ${amount}` : amount;
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
