import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import type { Clock } from "../../core/clock.ts";
import { GAUGES, type GaugeSample } from "../../core/instruments.ts";
import { within } from "../../core/waiting.ts";
import { version } from "../../node/version.ts";
import type { OwnGauge } from "../../part.ts";
import { isBalanced } from "../../store/rules/payments.ts";
import type { Store, StoreTotals } from "../../store/store.ts";

/** A store's totals are read at most this often, because counting is work for a store with many payments. */
const KEEP_TOTALS_MS = 1_000;
/** A store that takes longer to count is reported as down, so that a scrape does not hang. */
const TOTALS_TIMEOUT_MS = 3_000;

/**
 * Node's own metrics that are left out. Some are gauges with a counter's name, which `promtool check metrics` rejects.
 * The metrics that have the same figures by type remain. Node's lag of the event loop restarts at every scrape, so two
 * scrapers would disturb each other. jobgate_event_loop_delay_seconds replaces it, and only adds up.
 */
const LEFT_OUT = /^nodejs_(active_\w+_total|eventloop_lag_\w+)$/;

/** The store, as far as its metrics read it. */
interface MeasuredStore extends Pick<Store, "status"> {
  readonly totals: ReturnType<typeof cachedTotals>;
}

/** A token's rate, as far as its metrics read it. */
interface MeasuredRate {
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  readonly source: string;
  readonly rate?: { readonly ratePerNativeUnit: string; readonly asOf?: number };
  readonly usable: boolean;
}

/** Makes a registry with the metrics of this process; gauges are read at each scrape. */
export function collectMetrics(sources: {
  readonly store: MeasuredStore;
  readonly runners: () => readonly { readonly inFlight: number }[];
  readonly rates: () => readonly MeasuredRate[];
  readonly gauges: () => readonly GaugeSample[];
  readonly clock: Clock;
}): Registry {
  const { store, runners, rates, gauges, clock } = sources;
  const registry = new Registry();
  collectProcess(registry);
  collectStore(registry, store, clock);
  collectRunners(registry, runners);
  collectRates(registry, rates, clock);
  collectGauges(registry, gauges);
  return registry;
}

function collectProcess(registry: Registry): void {
  collectDefaultMetrics({ register: registry });
  for (const { name } of registry.getMetricsAsArray())
    if (LEFT_OUT.test(name)) registry.removeSingleMetric(name);
  const help = "Always 1; the label holds the version of jobgate.";
  addGauge(registry, { name: "jobgate_build_info", help, labels: ["version"] }, () => [[1, { version }]]);
}

/** Adds the store's metrics. Metrics that need the store's totals are absent while the store does not answer. */
export function collectStore(registry: Registry, store: MeasuredStore, clock: Clock): void {
  const { totals } = store;
  const flag = (name: string, help: string, read: () => boolean | Promise<boolean>) =>
    addGauge(registry, { name, help }, async () => [[Number(await read())]]);
  const fromTotals = (
    name: string,
    help: string,
    labels: readonly string[],
    read: (totals: StoreTotals) => readonly Sample[],
  ) =>
    addGauge(registry, { name, help, labels }, async () => {
      const current = await totals();
      return current === undefined ? [] : read(current);
    });
  const byState = (counts: Readonly<Record<string, number>>): Sample[] =>
    Object.entries(counts).map(([state, count]) => [count, { state }]);
  const ageSecs = (since: number | undefined) =>
    since === undefined ? 0 : Math.max(0, clock() - since) / 1000;

  flag("jobgate_store_up", "1 if the store returned its totals.", async () => (await totals()) !== undefined);
  flag("jobgate_store_writable", "1 if the store can be written to.", () => store.status().writable);
  flag(
    "jobgate_store_full",
    "1 if max_pending is reached and new work is refused.",
    () => store.status().full,
  );
  fromTotals("jobgate_payments", "Payments in the journal, by state.", ["state"], ({ payments }) =>
    byState(payments),
  );
  fromTotals("jobgate_queue_calls", "Unfinished JobCalls, by state.", ["state"], ({ calls }) =>
    byState(calls),
  );
  fromTotals(
    "jobgate_queue_oldest_age_seconds",
    "Age of the oldest JobCall that waits for a runner or a retry; 0 if none waits.",
    [],
    ({ oldestReadyAt }) => [[ageSecs(oldestReadyAt)]],
  );
  fromTotals(
    "jobgate_journal_balanced",
    "1 if each settled payment has exactly one JobCall, and the money for each dead one is kept, owed or refunded; 0 is a fault in jobgate.",
    [],
    (current) => [[Number(isBalanced(current))]],
  );
}

function collectRunners(registry: Registry, runners: () => readonly { readonly inFlight: number }[]): void {
  addGauge(
    registry,
    { name: "jobgate_runner_streams", help: "Open runner streams, and push targets." },
    () => [[runners().length]],
  );
  addGauge(
    registry,
    { name: "jobgate_runner_in_flight", help: "Unfinished JobCalls of runners and push targets." },
    () => [[runners().reduce((sum, { inFlight }) => sum + inFlight, 0)]],
  );
}

function collectRates(registry: Registry, rates: () => readonly MeasuredRate[], clock: Clock): void {
  /** @param read returns undefined to leave the token out */
  const byToken = (name: string, help: string, read: (rate: MeasuredRate) => number | undefined) =>
    addGauge(registry, { name, help, labels: ["network", "asset", "symbol", "source"] }, () =>
      rates().map((rate) => {
        const { network, asset, symbol, source } = rate;
        return [read(rate), { network, asset, symbol, source }];
      }),
    );
  byToken(
    "jobgate_token_rate",
    "Whole tokens for one native unit: the last good value, even if stale.",
    ({ rate }) => rate && Number(rate.ratePerNativeUnit),
  );
  byToken("jobgate_token_rate_age_seconds", "Age of a live rate.", ({ rate }) =>
    rate?.asOf === undefined ? undefined : Math.max(0, clock() - rate.asOf) / 1000,
  );
  byToken(
    "jobgate_token_rate_usable",
    "1 if offers can be made in the token, 0 if its rate is stale or unknown.",
    ({ usable }) => Number(usable),
  );
}

/** Adds the gauges of parts; without samples where no part reads them. */
function collectGauges(registry: Registry, gauges: () => readonly GaugeSample[]): void {
  for (const [name, { help, labels }] of Object.entries(GAUGES))
    addGauge(registry, { name, help, labels }, () =>
      gauges()
        .filter(({ gauge }) => gauge === name)
        .map(({ value, labels }) => [value, labels]),
    );
}

/** Adds gauges and counters that single parts have. */
export function collectOwn(
  registry: Registry,
  gauges: readonly OwnGauge[],
  { totals }: Pick<MeasuredStore, "totals">,
  clock: Clock,
): void {
  for (const { read, ...about } of gauges)
    addGauge(registry, about, async () => read(await totals(), clock()));
}

/** One value of a gauge, and its labels. Undefined leaves the sample out. */
type Sample = readonly [value: number | undefined, labels?: Readonly<Record<string, string>>];

/** Adds a gauge, or a counter, whose samples are read at each scrape. */
function addGauge(
  registry: Registry,
  {
    labels = [],
    isCounter = false,
    ...about
  }: {
    readonly name: string;
    readonly help: string;
    readonly labels?: readonly string[];
    readonly isCounter?: boolean;
  },
  read: () => readonly Sample[] | Promise<readonly Sample[]>,
): void {
  const Kind = isCounter ? Counter : Gauge;
  const metric: Counter | Gauge = new Kind({
    ...about,
    labelNames: [...labels],
    registers: [registry],
    async collect() {
      const samples = await read();
      metric.reset();
      // A metric without labels is reset to 0.
      if (labels.length === 0) metric.remove();
      for (const [value, ofLabels = {}] of samples) if (value !== undefined) metric.inc(ofLabels, value);
    },
  });
}

/** Returns a function that reads the totals; it returns undefined while the store does not answer. */
export function cachedTotals(read: () => Promise<StoreTotals>): () => Promise<StoreTotals | undefined> {
  let readAt = Number.NEGATIVE_INFINITY;
  let totals: Promise<StoreTotals | undefined> = Promise.resolve(undefined);
  return () => {
    if (performance.now() - readAt < KEEP_TOTALS_MS) return totals;
    readAt = performance.now();
    totals = within(
      TOTALS_TIMEOUT_MS,
      read().catch(() => undefined),
    );
    return totals;
  };
}
