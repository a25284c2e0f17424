import { collectDefaultMetrics, Gauge, Registry } from "prom-client";
import type { Clock } from "../core/clock.ts";
import { version } from "../node/version.ts";
import { isBalanced } from "../store/rules/payments.ts";
import type { StoreStatus, StoreTotals } from "../store/store.ts";

/** A store's totals are read at most this often, because counting is work for a store with many payments. */
const KEEP_TOTALS_MS = 1_000;
/** A store that takes longer to count is reported as down, so that a scrape does not hang. */
const TOTALS_TIMEOUT_MS = 3_000;

/**
 * Node's own metrics that are left out. Some are gauges with a counter's name, to which `promtool check metrics`
 * objects; the same figures by type remain. The event loop's lag restarts at every scrape, so two scrapers would disturb
 * each other; jobgate_event_loop_delay_seconds adds up.
 */
const LEFT_OUT = /^nodejs_(active_\w+_total|eventloop_lag_\w+)$/;

/** The store, as far as its metrics read it. */
interface MeasuredStore {
  status(): StoreStatus;
  totals(): Promise<StoreTotals>;
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
  readonly clock: Clock;
}): Registry {
  const { store, runners, rates, clock } = sources;
  const registry = new Registry();
  collectProcess(registry);
  collectStore(registry, store, clock);
  collectRunners(registry, runners);
  collectRates(registry, rates, clock);
  return registry;
}

function collectProcess(registry: Registry): void {
  collectDefaultMetrics({ register: registry });
  for (const { name } of registry.getMetricsAsArray())
    if (LEFT_OUT.test(name)) registry.removeSingleMetric(name);
  new Gauge({
    name: "jobgate_build_info",
    help: "Always 1; the label holds the version of jobgate.",
    labelNames: ["version"],
    registers: [registry],
  }).set({ version }, 1);
}

/** Adds the store's metrics. Those that need its totals are absent while the store does not answer. */
export function collectStore(registry: Registry, store: MeasuredStore, clock: Clock): void {
  const totals = cachedTotals(() => store.totals());
  const fromTotals = (name: string, help: string, read: (totals: StoreTotals) => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      async collect() {
        const current = await totals();
        if (current === undefined) this.remove();
        else this.set(read(current));
      },
    });
  const byState = (
    name: string,
    help: string,
    read: (totals: StoreTotals) => Readonly<Record<string, number>>,
  ) =>
    new Gauge({
      name,
      help,
      labelNames: ["state"],
      registers: [registry],
      async collect() {
        this.reset();
        const current = await totals();
        for (const [state, count] of Object.entries(current ? read(current) : {})) this.set({ state }, count);
      },
    });

  gauge(registry, "jobgate_store_up", "1 if the store returned its totals.", async () =>
    Number((await totals()) !== undefined),
  );
  gauge(registry, "jobgate_store_writable", "1 if the store can be written to.", () =>
    Number(store.status().writable),
  );
  gauge(registry, "jobgate_store_full", "1 if max_pending is reached and new work is refused.", () =>
    Number(store.status().full),
  );
  byState("jobgate_payments", "Payments in the journal, by state.", ({ payments }) => payments);
  byState("jobgate_queue_calls", "Unfinished JobCalls, by state.", ({ calls }) => calls);
  fromTotals(
    "jobgate_queue_oldest_age_seconds",
    "Age of the oldest JobCall that waits for a runner or a retry; 0 if none waits.",
    ({ oldestReadyAt }) => (oldestReadyAt === undefined ? 0 : Math.max(0, clock() - oldestReadyAt) / 1000),
  );
  fromTotals(
    "jobgate_journal_balanced",
    "1 if each settled payment has exactly one JobCall; 0 is a fault in jobgate.",
    (current) => Number(isBalanced(current)),
  );
}

function collectRunners(registry: Registry, runners: () => readonly { readonly inFlight: number }[]): void {
  gauge(registry, "jobgate_runner_streams", "Open Subscribe streams.", () => runners().length);
  gauge(registry, "jobgate_runner_in_flight", "Unfinished JobCalls on open Subscribe streams.", () =>
    runners().reduce((sum, { inFlight }) => sum + inFlight, 0),
  );
}

function collectRates(registry: Registry, rates: () => readonly MeasuredRate[], clock: Clock): void {
  /** @param read returns undefined to leave the token out */
  const byToken = (name: string, help: string, read: (rate: MeasuredRate) => number | undefined) =>
    new Gauge({
      name,
      help,
      labelNames: ["network", "asset", "symbol", "source"],
      registers: [registry],
      collect() {
        // A reload may have removed a token.
        this.reset();
        for (const report of rates()) {
          const value = read(report);
          const { network, asset, symbol, source } = report;
          if (value !== undefined) this.set({ network, asset, symbol, source }, value);
        }
      },
    });
  byToken(
    "jobgate_token_rate",
    "Whole tokens for one native unit: the last good value, even if stale.",
    ({ rate }) => (rate === undefined ? undefined : Number(rate.ratePerNativeUnit)),
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

/** Adds a gauge without labels that is read at each scrape. */
function gauge(registry: Registry, name: string, help: string, read: () => number | Promise<number>): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      this.set(await read());
    },
  });
}

/** @returns undefined while the store does not answer */
function cachedTotals(read: () => Promise<StoreTotals>): () => Promise<StoreTotals | undefined> {
  let readAt = Number.NEGATIVE_INFINITY;
  let totals: Promise<StoreTotals | undefined> = Promise.resolve(undefined);
  return () => {
    if (performance.now() - readAt < KEEP_TOTALS_MS) return totals;
    readAt = performance.now();
    totals = withTimeout(read().catch(() => undefined));
    return totals;
  };
}

async function withTimeout<T>(work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), TOTALS_TIMEOUT_MS);
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
