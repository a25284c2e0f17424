import { Registry } from "prom-client";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { cachedTotals, collectOwn, collectStore } from "../../../src/parts/telemetry/collectors.ts";
import type { StoreStatus, StoreTotals } from "../../../src/store/store.ts";

const NOW = 1_900_000_000_000;
const NONE_DEFERRED = { authorized: 0, settling: 0, settled: 0, released: 0, failed: 0, unresolved: 0 };
const TOTALS: StoreTotals = {
  payments: { ...NONE_DEFERRED, intent: 1, settled: 9, failed: 2, unresolved: 3 },
  deferred: NONE_DEFERRED,
  calls: { held: 4, ready: 5, leased: 6, dead: 7 },
  paidCalls: { ready: 1, leased: 2, done: 3, dead: 3 },
  kept: 3,
  uncharged: 0,
  accounted: 0,
  sums: {},
  oldestReadyAt: NOW - 90_500,
};

/** Scrapes a stub store, because no real one loses its journal's balance. */
function metricsOf(
  totals: () => Promise<StoreTotals>,
  status: StoreStatus = { writable: true, pending: 0, full: false },
) {
  const registry = new Registry();
  collectStore(registry, { totals: cachedTotals(totals), status: () => status }, () => NOW);
  return async () => {
    const lines = (await registry.metrics()).split("\n").filter((line) => /^jobgate/.test(line));
    return Object.fromEntries(lines.map((line) => line.split(" "))) as Record<string, string>;
  };
}

describe("The store's metrics", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
  afterEach(() => void vi.useRealTimers());

  it("show its totals, its status, the balance of the journal, and the age of the oldest waiting JobCall", async () => {
    expect(await metricsOf(async () => TOTALS, { writable: true, pending: 9, full: true })()).toEqual({
      jobgate_store_up: "1",
      jobgate_store_writable: "1",
      jobgate_store_full: "1",
      'jobgate_payments{state="intent"}': "1",
      'jobgate_payments{state="settled"}': "9",
      'jobgate_payments{state="failed"}': "2",
      'jobgate_payments{state="authorized"}': "0",
      'jobgate_payments{state="settling"}': "0",
      'jobgate_payments{state="released"}': "0",
      'jobgate_payments{state="unresolved"}': "3",
      'jobgate_queue_calls{state="held"}': "4",
      'jobgate_queue_calls{state="ready"}': "5",
      'jobgate_queue_calls{state="leased"}': "6",
      'jobgate_queue_calls{state="dead"}': "7",
      jobgate_queue_oldest_age_seconds: "90.5",
      jobgate_journal_balanced: "1",
    });
  });

  it("show a settled payment without a JobCall, and age 0 if no JobCall waits", async () => {
    const { oldestReadyAt: _, ...none } = TOTALS;
    const lost = await metricsOf(async () => ({ ...none, paidCalls: { ...TOTALS.paidCalls, done: 2 } }))();
    expect(lost).toMatchObject({ jobgate_journal_balanced: "0", jobgate_queue_oldest_age_seconds: "0" });
  });

  it("read the totals once a second, however many scrapes there are", async () => {
    let counted = 0;
    const read = metricsOf(async () => {
      counted++;
      return TOTALS;
    });
    await Promise.all(Array.from({ length: 20 }, read));
    vi.advanceTimersByTime(999);
    await read();
    expect(counted).toBe(1);
    vi.advanceTimersByTime(1);
    await read();
    expect(counted).toBe(2);
  });

  it.each([
    ["fails", () => Promise.reject(new Error("gone"))],
    ["never answers", () => new Promise<StoreTotals>(() => {})],
  ])("leave the totals out after 3 s at most if the store %s", async (_, totals) => {
    const scrape = metricsOf(totals, { writable: false, pending: 0, full: false, reason: "disk full" })();
    await vi.advanceTimersByTimeAsync(3_000);
    expect(await scrape).toEqual({
      jobgate_store_up: "0",
      jobgate_store_writable: "0",
      jobgate_store_full: "0",
    });
  });
});

it("A counter that a part keeps is shown as a counter, with the values of each scrape", async () => {
  const registry = new Registry();
  let value = 1;
  const counter = { name: "jobgate_tries_total", help: "Tries.", labels: ["by"], isCounter: true } as const;
  const totals = cachedTotals(async () => TOTALS);
  collectOwn(registry, [{ ...counter, read: () => [[value, { by: "a" }]] }], { totals }, () => NOW);
  expect(await registry.metrics()).toContain(
    `# TYPE jobgate_tries_total counter\njobgate_tries_total{by="a"} 1\n`,
  );
  value = 5;
  expect(await registry.metrics()).toContain(`\njobgate_tries_total{by="a"} 5\n`);
});
