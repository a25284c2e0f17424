import { Registry } from "prom-client";
import { describe, expect, it } from "vitest";
import type { Store, StoreStatus, StoreTotals } from "../../src/store/store.ts";
import { storeMetrics } from "../../src/telemetry/store-metrics.ts";

const NOW = 1_900_000_000_000;
const TOTALS: StoreTotals = {
  payments: { intent: 1, settled: 9, failed: 2, unresolved: 3 },
  calls: { held: 4, ready: 5, leased: 6, dead: 7 },
  paidCalls: { ready: 1, leased: 2, done: 3, dead: 3 },
  oldestReadyAt: NOW - 90_500,
};

/** A store that answers as told, since no real one can be made to lose its journal's balance. */
function metricsOf(
  totals: () => Promise<StoreTotals>,
  status: StoreStatus = { writable: true, full: false },
) {
  const store: Pick<Store, "status" | "totals"> = { totals, status: () => status };
  const registry = new Registry();
  storeMetrics(store, () => NOW)(registry);
  return async () => {
    const lines = (await registry.metrics()).split("\n").filter((line) => /^jobgate/.test(line));
    return Object.fromEntries(lines.map((line) => line.split(" "))) as Record<string, string>;
  };
}

describe("The store's metrics", () => {
  it("Are its totals as they are, whether the journal balances, and since when work waits", async () => {
    expect(await metricsOf(async () => TOTALS, { writable: true, full: true })()).toEqual({
      jobgate_store_up: "1",
      jobgate_store_writable: "1",
      jobgate_store_full: "1",
      'jobgate_payments{state="intent"}': "1",
      'jobgate_payments{state="settled"}': "9",
      'jobgate_payments{state="failed"}': "2",
      'jobgate_payments{state="unresolved"}': "3",
      'jobgate_queue_calls{state="held"}': "4",
      'jobgate_queue_calls{state="ready"}': "5",
      'jobgate_queue_calls{state="leased"}': "6",
      'jobgate_queue_calls{state="dead"}': "7",
      jobgate_queue_oldest_age_seconds: "90.5",
      jobgate_journal_balanced: "1",
    });
  });

  it("Say so when a settled payment has no JobCall, and when nothing waits", async () => {
    const { oldestReadyAt: _, ...none } = TOTALS;
    const lost = await metricsOf(async () => ({ ...none, paidCalls: { ...TOTALS.paidCalls, done: 2 } }))();
    expect(lost).toMatchObject({ jobgate_journal_balanced: "0", jobgate_queue_oldest_age_seconds: "0" });
  });

  it("Are counted once a second, however often and by however many they are asked for", async () => {
    let counted = 0;
    const read = metricsOf(async () => {
      counted++;
      return TOTALS;
    });
    await Promise.all(Array.from({ length: 20 }, read));
    await read();
    expect(counted).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 1_050));
    await read();
    expect(counted).toBe(2);
  });

  it.each([
    ["that cannot answer", () => Promise.reject(new Error("gone"))],
    ["that never answers", () => new Promise<StoreTotals>(() => {})],
  ])(
    "Of a store %s leave out what is not known; the rest is told, and no scrape waits for ever",
    async (_, totals) => {
      const read = metricsOf(totals, { writable: false, full: false, reason: "disk full" });
      const startedAt = performance.now();
      const told = await read();
      expect(performance.now() - startedAt).toBeLessThan(4_000);
      expect(told).toEqual({ jobgate_store_up: "0", jobgate_store_writable: "0", jobgate_store_full: "0" });
    },
  );
});
