import { parseDollars, priceText, type UsdPrice } from "../core/amounts.ts";
import { closestWord } from "../core/closest-word.ts";
import { dollarsLike, oneOf, parsedText } from "./value-types.ts";
import { needs, SHOWN } from "./wrong-value.ts";

/** Word that leaves the prices to a part's source of prices, which makes them in wei. */
const SOURCE = "engine";
/** Ability of the part that makes such prices. */
const ABILITY = "pricing engine";

/** Name of a source of prices in a part. */
export type PriceSourceName = typeof SOURCE;

const abilityFor = (value: unknown) => (value === SOURCE ? ABILITY : undefined);

/** Source of the prices of jobs that configure no price: the configuration's price map, or a part. */
export const priceSource = () => needs({ abilityFor, otherwise: '"map"' }, oneOf(["map", SOURCE]));

/** Price of a job in dollars, or the word that leaves the price to a source. */
export const dollarsOrSource = () =>
  needs(
    { abilityFor, otherwise: "dollars" },
    parsedText(
      `dollars above 0 with at most 6 decimal places, such as "$0.01", or "${SOURCE}"`,
      (value): UsdPrice | PriceSourceName | undefined => (value === SOURCE ? value : parseDollars(value)),
      {
        ...SHOWN,
        view: (price) => (price === SOURCE ? price : priceText(price)),
        near: (value) => [dollarsLike(value), closestWord(value, [SOURCE])],
      },
    ),
  );
