import { Gauge } from "prom-client";
import type { Clock } from "../core/clock.ts";
import type { RateReport } from "../pricing/rates/rate-board.ts";
import type { MetricsCollector } from "./metrics.ts";

/** Every accepted token's rate, as it is when the metrics are read. */
export function rateMetrics(rates: () => readonly RateReport[], clock: Clock): MetricsCollector {
  return (registry) => {
    /** @param read undefined leaves the token out */
    const gauge = (name: string, help: string, read: (report: RateReport) => number | undefined) =>
      new Gauge({
        name,
        help,
        labelNames: ["network", "asset", "symbol", "source"],
        registers: [registry],
        collect() {
          // A token may be gone from the configuration.
          this.reset();
          for (const report of rates()) {
            const value = read(report);
            const { network, asset, symbol, source } = report;
            if (value !== undefined) this.set({ network, asset, symbol, source }, value);
          }
        },
      });

    gauge(
      "jobgate_token_rate",
      "Whole tokens for one native unit: the last good value, usable or not.",
      ({ rate }) => (rate === undefined ? undefined : Number(rate.ratePerNativeUnit)),
    );
    gauge("jobgate_token_rate_age_seconds", "How old the value of a live rate is.", ({ rate }) =>
      rate?.asOf === undefined ? undefined : Math.max(0, clock() - rate.asOf) / 1000,
    );
    gauge(
      "jobgate_token_rate_usable",
      "1 when offers in the token can be made, 0 when its rate is too old or not known.",
      ({ usable }) => (usable ? 1 : 0),
    );
  };
}
