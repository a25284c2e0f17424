import fc from "fast-check";
import { Counter, Histogram, Registry } from "prom-client";
import { expect, it } from "vitest";
import { counterFamily, histogramFamily } from "../../../src/parts/telemetry/metrics.ts";

const help = "A metric.";
const label = fc.constantFrom("", "a", "b", 'quote " and \\ and \n');
const labels = fc.record({ one: label, two: label });
const value = fc.oneof(fc.constantFrom(0, 0.5, 1, 2.5, 100), fc.double({ min: 0, max: 1e6, noNaN: true }));

it("Counters are shown as prom-client shows its own", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(labels, value)), async (additions) => {
      const [ours, theirs] = [new Registry(), new Registry()];
      const family = counterFamily("n_total", { help, labels: ["one", "two"] });
      family.addTo(ours);
      const counter = new Counter({
        name: "n_total",
        help,
        labelNames: ["one", "two"],
        registers: [theirs],
      });
      for (const [at, by] of additions) {
        family.seriesOf(at).add(by);
        counter.inc(at, by);
      }
      expect(await ours.metrics()).toBe(await theirs.metrics());
    }),
  );
});

it("Histograms are shown as prom-client shows its own", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(labels, value)), async (observations) => {
      const [ours, theirs] = [new Registry(), new Registry()];
      const buckets = [0.5, 1, 2.5, 10];
      const family = histogramFamily("n_seconds", { help, labels: ["one", "two"], buckets });
      family.addTo(ours);
      const histogram = new Histogram({
        ...{ name: "n_seconds", help, labelNames: ["one", "two"], buckets },
        registers: [theirs],
      });
      for (const [at, seconds] of observations) {
        family.seriesOf(at).observe(seconds);
        histogram.observe(at, seconds);
      }
      expect(await ours.metrics()).toBe(await theirs.metrics());
    }),
  );
});

it("A metric without labels is shown from the start", async () => {
  const [ours, theirs] = [new Registry(), new Registry()];
  counterFamily("n_total", { help, labels: [] }).addTo(ours);
  histogramFamily("n_seconds", { help, labels: [], buckets: [1] }).addTo(ours);
  new Counter({ name: "n_total", help, registers: [theirs] });
  new Histogram({ name: "n_seconds", help, buckets: [1], registers: [theirs] });
  expect(await ours.metrics()).toBe(await theirs.metrics());
});
