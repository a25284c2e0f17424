export const DAY_MS = 86_400_000;

/** Whole UTC days, in Unix milliseconds. */
export interface Period {
  readonly since: number;
  readonly until: number;
}

const PERIODS = {
  today: { name: "Today", first: 0, after: -1 },
  yesterday: { name: "Yesterday", first: 1, after: 0 },
  "7d": { name: "7 days", first: 6, after: -1 },
  "30d": { name: "30 days", first: 29, after: -1 },
} as const;
export type PeriodKey = keyof typeof PERIODS;

/** Returns the periods that operators can select, which end with a UTC day. Periods of several days include today. */
export function periodsAt(
  now: number,
): readonly (Period & { readonly key: PeriodKey; readonly name: string })[] {
  const today = Math.floor(now / DAY_MS);
  return (Object.keys(PERIODS) as PeriodKey[]).map((key) => {
    const { name, first, after } = PERIODS[key];
    return { key, name, since: (today - first) * DAY_MS, until: (today - after) * DAY_MS };
  });
}

/** Amounts of a sum by their headings. */
export const AMOUNTS = {
  Sold: "sold",
  Refunded: "refunded",
  "Charged back": "chargedBack",
  Lost: "lost",
  Corrected: "corrected",
  Fees: "fees",
  Net: "net",
} as const;

type AmountName = (typeof AMOUNTS)[keyof typeof AMOUNTS];
/** Amounts of one token, in base units. */
type Sum = Readonly<Record<AmountName, string>> & { readonly decimals: number };

/** Formats an amount of a sum in whole tokens. */
export function sumText(sum: Sum, name: AmountName): string {
  return signedDecimalText(sum[name], sum.decimals);
}

/** Formats base units in whole tokens, exactly. */
export function signedDecimalText(units: string, decimals: number): string {
  const isNegative = units.startsWith("-");
  const digits = units.slice(isNegative ? 1 : 0).padStart(decimals + 1, "0");
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, "");
  const whole = digits.slice(0, digits.length - decimals);
  return `${isNegative ? "-" : ""}${whole}${fraction === "" ? "" : `.${fraction}`}`;
}

/** Formats the day of a Unix time, in UTC: `2026-01-31`. */
export const dayText = (at: number): string => new Date(at).toISOString().slice(0, 10);
