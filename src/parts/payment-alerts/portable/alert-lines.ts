/** Texts of each kind of alert, for one payment and for several. */
const TEXTS = {
  charge_lost: ["job was done and could not be charged", "jobs were done and could not be charged"],
  paid: [
    "payment recorded as not paid moved money all the same",
    "payments recorded as not paid moved money all the same",
  ],
  not_paid: [
    "sold payment is not on the chain any more, or never was",
    "sold payments are not on the chain any more, or never were",
  ],
} as const;
type KindName = keyof typeof TEXTS;

/**
 * Returns a line for each kind of alert of the last week.
 * @param numbers the API's number for each kind
 */
export function alertLines<Kind>(
  alerts: readonly { readonly kind: Kind; readonly count: bigint }[],
  numbers: Readonly<Record<KindName, Kind>>,
): { readonly name: KindName; readonly count: bigint; readonly text: string }[] {
  return alerts.flatMap(({ kind, count }) => {
    const name = (Object.keys(TEXTS) as KindName[]).find((name) => numbers[name] === kind);
    if (name === undefined) return [];
    const [one, several] = TEXTS[name];
    return { name, count, text: count === 1n ? one : several };
  });
}
