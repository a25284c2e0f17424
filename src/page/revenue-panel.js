/** @import { Revenue } from "./api.js" */
/** @import { Client } from "./connect.js" */
import { barChart } from "./chart.js";
import { byId, h } from "./dom.js";
import { minuteText, plural } from "./format.js";
import { amount, amountText, tokenKey } from "./tokens.js";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const PERIODS = {
  hour: { text: "the last hour", bucketMs: 2 * MINUTE_MS, buckets: 30 },
  day: { text: "the last 24 hours", bucketMs: HOUR_MS, buckets: 24 },
  week: { text: "the last 7 days", bucketMs: 6 * HOUR_MS, buckets: 28 },
  month: { text: "the last 30 days", bucketMs: 24 * HOUR_MS, buckets: 30 },
};

/**
 * Revenue, with one chart per token because their amounts cannot be added.
 * @param {{ client: Client, signal: AbortSignal, onChange: () => void }} options `onChange` runs when the user picks
 *   another period
 */
export function createRevenuePanel({ client, signal, onChange }) {
  const place = byId("revenue-tokens", HTMLElement);
  const picker = byId("revenue-period", HTMLFieldSetElement);
  picker.addEventListener("change", onChange, { signal });
  let shown = "";

  return {
    async refresh() {
      const checked = picker.querySelector("input:checked");
      const name = checked instanceof HTMLInputElement ? checked.value : "";
      const period = PERIODS[/** @type {keyof typeof PERIODS} */ (name)] ?? PERIODS.day;
      const { bucketMs, buckets } = period;
      const first = (Math.floor(Date.now() / bucketMs) - buckets + 1) * bucketMs;
      const { revenue } = await client.call("GetRevenue", {
        since: new Date(first).toISOString(),
        bucket: `${bucketMs / 1_000}s`,
      });
      const json = JSON.stringify([first, name, revenue]);
      if (json === shown) return;
      shown = json;
      if (revenue.length === 0) {
        place.replaceChildren(h("p", { class: "empty" }, `Nothing came in over ${period.text}.`));
        return;
      }
      place.replaceChildren(...byToken(revenue).map((token) => tokenChart(token, first, period)));
    },
  };
}

/** @param {readonly Revenue[]} revenue */
function byToken(revenue) {
  /** @type {Map<string, Revenue[]>} */
  const tokens = new Map();
  for (const bucket of revenue) {
    const key = tokenKey(bucket);
    tokens.set(key, [...(tokens.get(key) ?? []), bucket]);
  }
  return [...tokens.values()];
}

/**
 * @param {readonly Revenue[]} revenue Buckets of one token.
 * @param {number} first Start of the first bucket, Unix milliseconds.
 * @param {{ text: string, bucketMs: number, buckets: number }} period
 */
function tokenChart(revenue, first, { text, bucketMs, buckets }) {
  const [token = { network: "", asset: "", symbol: "" }] = revenue;
  const total = revenue.reduce((sum, bucket) => sum + BigInt(bucket.amount), 0n);
  const payments = revenue.reduce((sum, bucket) => sum + Number(bucket.payments), 0);
  const byStart = new Map(revenue.map((bucket) => [Date.parse(bucket.from ?? ""), bucket]));
  const bars = Array.from({ length: buckets }, (_, i) => {
    const from = first + i * bucketMs;
    const bucket = byStart.get(from);
    const units = BigInt(bucket?.amount ?? 0);
    return {
      value: Number(units),
      title: `${minuteText(from)}: ${amountText(token, units)}, ${plural(Number(bucket?.payments ?? 0), "payment")}`,
    };
  });
  return h(
    "figure",
    { class: "token-revenue" },
    h(
      "figcaption",
      {},
      h("strong", {}, amount(token, total)),
      h("span", { class: "muted" }, ` ${plural(payments, "payment")} · ${token.network}`),
    ),
    barChart({
      label: `${amountText(token, total)} in ${plural(payments, "payment")} over ${text}`,
      bars,
      height: 64,
    }),
    h("p", { class: "axis", "aria-hidden": "true" }, h("span", {}, minuteText(first)), h("span", {}, "now")),
  );
}
