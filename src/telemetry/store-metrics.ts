import { Gauge } from "prom-client";
import type { Clock } from "../core/clock.ts";
import { isBalanced } from "../store/rules/journal-balance.ts";
import type { Store, StoreTotals } from "../store/store.ts";
import type { MetricsCollector } from "./metrics.ts";

/** Counting can be work for a store with many payments: however often anyone asks, it counts once in this time. */
const KEEP_MS = 1_000;
/** A store that takes longer counts as not answering: whoever scrapes does not wait for ever either. */
const TIMEOUT_MS = 3_000;

/** What is in the store, as it is when the metrics are read. A store that does not answer leaves all but `up` out. */
export function storeMetrics(store: Pick<Store, "status" | "totals">, clock: Clock): MetricsCollector {
  return (registry) => {
    const totals = cachedTotals(() => store.totals());
    const gauge = (name: string, help: string, read: (totals: StoreTotals) => number) =>
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
          for (const [state, count] of Object.entries(current ? read(current) : {}))
            this.set({ state }, count);
        },
      });
    const now = (name: string, help: string, read: () => boolean | Promise<boolean>) =>
      new Gauge({
        name,
        help,
        registers: [registry],
        async collect() {
          this.set((await read()) ? 1 : 0);
        },
      });

    now("jobgate_store_up", "1 when the store could be asked for its totals.", async () => {
      return (await totals()) !== undefined;
    });
    now("jobgate_store_writable", "1 while the store can be written to.", () => store.status().writable);
    now("jobgate_store_full", "1 while max_pending is reached and new work is refused.", () => {
      return store.status().full;
    });
    byState("jobgate_payments", "Payments in the journal, by state.", ({ payments }) => payments);
    byState("jobgate_queue_calls", "JobCalls that are not finished, by state.", ({ calls }) => calls);
    gauge(
      "jobgate_queue_oldest_age_seconds",
      "How long ago the JobCall that waits longest for a runner or a retry was accepted; 0 when none waits.",
      ({ oldestReadyAt }) => (oldestReadyAt === undefined ? 0 : Math.max(0, clock() - oldestReadyAt) / 1000),
    );
    gauge(
      "jobgate_journal_balanced",
      "1 when each settled payment has exactly one JobCall; 0 is a fault in jobgate.",
      (current) => (isBalanced(current) ? 1 : 0),
    );
  };
}

/** @returns undefined when the store does not answer */
function cachedTotals(ask: () => Promise<StoreTotals>): () => Promise<StoreTotals | undefined> {
  let askedAt = Number.NEGATIVE_INFINITY;
  let answer: Promise<StoreTotals | undefined> = Promise.resolve(undefined);
  return () => {
    if (performance.now() - askedAt < KEEP_MS) return answer;
    askedAt = performance.now();
    answer = inTime(ask().catch(() => undefined));
    return answer;
  };
}

async function inTime<T>(work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), TIMEOUT_MS);
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
