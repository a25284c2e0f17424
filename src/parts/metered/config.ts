import type { EntryKeys, LeastCharge } from "../../config/entry-keys.ts";
import { chargesOf, type JobTable } from "../../config/jobs.ts";
import { dollarsLike, parsedText } from "../../config/value-types.ts";
import { SHOWN } from "../../config/wrong-value.ts";
import { parseDollars, priceText, type UsdPrice } from "../../core/amounts.ts";

/** Value of `charge` for a metered job. */
export const USED = "used";

/** Minimum charge: a fraction of the price, or dollars if the price is in dollars. */
type MinCharge = UsdPrice | { readonly basisPoints: number };

const minCharge = () =>
  parsedText(
    'a part of the price such as "10%", or dollars such as "$0.01"',
    (value): MinCharge | undefined => {
      const [, percent] = /^((?:100|[1-9]?[0-9])(?:\.[0-9]{1,2})?)%$/.exec(value) ?? [];
      if (percent === undefined) return parseDollars(value);
      const basisPoints = Math.round(Number(percent) * 100);
      return basisPoints > 0 && basisPoints <= 10_000 ? { basisPoints } : undefined;
    },
    {
      ...SHOWN,
      view: (charge) => ("unit" in charge ? priceText(charge) : `${charge.basisPoints / 100}%`),
      near: (value) => [dollarsLike(value)],
    },
  );

interface MeteredJobTable extends JobTable {
  readonly minCharge?: MinCharge;
}

/** `min_charge` of `[[jobs]]` */
export const meteredKeys: EntryKeys<"jobs"> = {
  list: "jobs",
  keys: {
    /** Minimum charge for a metered job that still runs when its payment is about to expire. */
    minCharge: minCharge().optional(),
  },
  alternative: "a min_charge",
  claim({ minCharge: least, ...job }: MeteredJobTable, place) {
    if (least === undefined) return undefined;
    return {
      keys: {},
      check() {
        if (place.at("charge").hasMistake) return;
        const at = place.at("min_charge");
        if (!chargesOf(job).includes(USED))
          at.report('is set for a job that is charged its price; expected charge = "used" beside it');
        if ("unit" in least && (job.price === undefined || typeof job.price === "string"))
          at.report('is in dollars, and the price is not; expected a part of it such as "10%"');
      },
      complete: () => ({ leastCharge: leastChargeOf(least) }),
    };
  },
};

/** Rounds up, and never above the ceiling. */
export function leastChargeOf(least: MinCharge): LeastCharge {
  return ({ amount, priceWei }) => {
    const [part, whole] =
      "basisPoints" in least ? [BigInt(least.basisPoints), 10_000n] : [least.amount, priceWei];
    const units = (BigInt(amount) * part + whole - 1n) / whole;
    return String(units < BigInt(amount) ? units : amount);
  };
}
