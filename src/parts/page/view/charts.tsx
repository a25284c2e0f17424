import type { JsonObject } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { Revenue } from "../../../gen/jobgate/v1/operator_pb.ts";
import { countText, exactAmount, plural, spanText } from "../../../page/shared/format.js";
import { client, useAnswer, useConfiguration, useTotals } from "../../../page/tools/client.ts";
import { Hint } from "../../../page/tools/controls.tsx";
import { DAY_MS, HOUR_MS, MINUTE_MS, NetworkName, SECOND_MS } from "../../../page/tools/format.tsx";
import { type Filters, href } from "../../../page/tools/route.ts";
import { Chart } from "./chart.tsx";

/** Counts of the last 24 hours, each with its list. */
export function Activity() {
  const { data } = useAnswer(["activity"], 15 * SECOND_MS, (options) =>
    client.getActivity({ bucket: durationFromMs(10 * MINUTE_MS) }, options),
  );
  const activity = data?.activity ?? [];
  const since = "24h";
  const kinds = [
    { name: "accepted", key: "accepted", color: "accent", link: href("jobs", { since }) },
    { name: "done", key: "acked", color: "good", link: href("jobs", { since, state: "done" }) },
    { name: "dead", key: "deadLettered", color: "bad", link: href("dead-letters") },
    { name: "refused", key: "refused", color: "warn", link: href("endpoints") },
  ] as const;
  const series = kinds.map(({ name, key, color }) => ({
    name,
    color,
    values: activity.map((bucket) => Number(bucket[key])),
  }));
  const sums = series.map(({ values }) => values.reduce((sum, value) => sum + value, 0));
  const label = kinds.map(({ name }, index) => `${sums[index]} ${name}`).join(", ");
  return (
    <section class="panel" aria-labelledby="activity-title">
      <div class="panel-head">
        <h2 id="activity-title" title="of this process">
          Activity, 24 h
        </h2>
        <p class="muted">
          {kinds.map(({ name, key, link, color }, index) => (
            <a key={name} href={link} class="key" data-color={color}>
              {key === "refused"
                ? `${plural(sums[index] ?? 0, "request")} refused`
                : `${countText(sums[index] ?? 0)} ${name}`}
            </a>
          ))}
        </p>
      </div>
      <Chart
        label={`In the last 24 hours ${label}`}
        times={activity.map(({ from }) => (from ? timestampMs(from) : 0))}
        series={series}
        height={190}
      />
    </section>
  );
}

const QUEUE_MS = 10 * MINUTE_MS;
interface Sample {
  readonly at: number;
  readonly ready: number;
  readonly leased: number;
}
/** Kept while other views are shown. */
let samples: readonly Sample[] = [];

/** Queue depth over the last minutes since the page was opened. */
export function Queue() {
  const { data, dataUpdatedAt } = useTotals();
  if (data?.calls !== undefined && samples.at(-1)?.at !== dataUpdatedAt) {
    const { ready, leased } = data.calls;
    samples = [
      ...samples.filter(({ at }) => at >= dataUpdatedAt - QUEUE_MS),
      { at: dataUpdatedAt, ready: Number(ready), leased: Number(leased) },
    ];
  }
  const last = samples.at(-1);
  const most = Math.max(0, ...samples.flatMap(({ ready, leased }) => [ready, leased]));
  const span = spanText((last?.at ?? 0) - (samples[0]?.at ?? 0));
  return (
    <section class="panel" aria-labelledby="queue-title">
      <div class="panel-head">
        <h2 id="queue-title">Queue depth</h2>
        <p class="muted">
          <a href={href("jobs", { state: "ready" })} class="key">
            waiting
          </a>
          <a href={href("jobs", { state: "leased" })} class="key" data-color="muted">
            with runners
          </a>
        </p>
      </div>
      <Chart
        label={`Over the last ${span} at most ${most}; now ${last?.ready ?? 0} wait and ${last?.leased ?? 0} are at runners.`}
        times={samples.map(({ at }) => at)}
        series={[
          { name: "waiting", color: "accent", values: samples.map(({ ready }) => ready) },
          {
            name: "with runners",
            color: "muted",
            values: samples.map(({ leased }) => leased),
          },
        ]}
        height={190}
      />
    </section>
  );
}

/** Periods of the payment list, with bucket lengths. */
const PERIODS = {
  "1h": { text: "1 h", bucketMs: 2 * MINUTE_MS, buckets: 30 },
  "24h": { text: "24 h", bucketMs: HOUR_MS, buckets: 24 },
  "7d": { text: "7 d", bucketMs: 6 * HOUR_MS, buckets: 28 },
  "30d": { text: "30 d", bucketMs: DAY_MS, buckets: 30 },
} as const;
type Period = keyof typeof PERIODS;

/** Revenue, with one chart per token because their amounts cannot be added. */
export function RevenuePanel({ filters }: { filters: Filters }) {
  const period =
    filters.period !== undefined && filters.period in PERIODS ? (filters.period as Period) : "24h";
  const { bucketMs, buckets } = PERIODS[period];
  const first = (Math.floor(Date.now() / bucketMs) - buckets + 1) * bucketMs;
  const { data } = useAnswer(["revenue", period], 20 * SECOND_MS, (options) =>
    client.getRevenue({ since: timestampFromMs(first), bucket: durationFromMs(bucketMs) }, options),
  );
  const byToken = Map.groupBy(
    data?.revenue ?? [],
    ({ network, asset }) => `${network} ${asset.toLowerCase()}`,
  );
  return (
    <section class="panel" aria-labelledby="revenue-title">
      <div class="panel-head">
        <h2 id="revenue-title">Sold</h2>
        <nav class="chips" aria-label="Period">
          {Object.entries(PERIODS).map(([value, { text }]) => (
            <a
              key={value}
              href={href("", { period: value })}
              aria-current={value === period ? "true" : undefined}
            >
              {text}
            </a>
          ))}
        </nav>
      </div>
      <p class="muted">Before refunds, fees and losses.</p>
      {data !== undefined && byToken.size === 0 && <Hint>Nothing came in over this period.</Hint>}
      {[...byToken].map(([token, revenue]) => (
        <TokenRevenue key={token} revenue={revenue} first={first} period={period} />
      ))}
    </section>
  );
}

interface AcceptedToken {
  readonly network: string;
  readonly asset: string;
  readonly decimals: number;
}

/** Returns the tokens that a configuration accepts. */
function acceptedTokens(configuration: JsonObject | undefined): readonly AcceptedToken[] {
  const { x402 } = (configuration ?? {}) as { x402?: { accepted_tokens: readonly AcceptedToken[] } };
  return x402?.accepted_tokens ?? [];
}

function TokenRevenue(options: {
  readonly revenue: readonly Revenue[];
  readonly first: number;
  readonly period: Period;
}) {
  const { revenue, first, period } = options;
  const { bucketMs, buckets, text } = PERIODS[period];
  const { data } = useConfiguration();
  const { network = "", asset = "", symbol = "" } = revenue[0] ?? {};
  const token = acceptedTokens(data?.configuration).find(
    (one) => one.network === network && one.asset.toLowerCase() === asset.toLowerCase(),
  );
  const format = (units: bigint) =>
    token === undefined
      ? `${units} base units of ${symbol}`
      : `${exactAmount(units, token.decimals)} ${symbol}`;
  const total = revenue.reduce((sum, { amount }) => sum + BigInt(amount), 0n);
  const payments = revenue.reduce((sum, one) => sum + Number(one.payments), 0);
  const byStart = new Map(revenue.map((one) => [one.from ? timestampMs(one.from) : 0, one]));
  const times = Array.from({ length: buckets }, (_, index) => first + index * bucketMs);
  const scale = 10 ** (token?.decimals ?? 0);
  return (
    <Chart
      label={`${format(total)} in ${plural(payments, "payment")} over the last ${text}`}
      times={times}
      series={[
        {
          name: symbol,
          color: "accent",
          values: times.map((at) => Number(byStart.get(at)?.amount ?? 0) / scale),
        },
      ]}
      height={120}
      isBars
    >
      <figcaption>
        <a
          class="figure"
          href={href("payments", { state: "settled", since: period })}
          title={`${total} base units of ${asset} on ${network}`}
        >
          {format(total)}
        </a>{" "}
        <span class="muted">
          {plural(payments, "payment")} · <NetworkName network={network} />
        </span>
      </figcaption>
    </Chart>
  );
}
