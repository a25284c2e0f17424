import type { Config } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import type { EventHub } from "../../core/events.ts";
import type { CounterReader, HistogramReader } from "../../core/instruments.ts";
import type { RunnerReport } from "../../delivery/subscription.ts";
import type { OperatorAddition } from "../../operator/methods.ts";
import type { Holdings, LoadMethods } from "../../part.ts";
import type { Store } from "../../store/store.ts";
import type { ListedJob } from "../../x402/jobs/listing.ts";
import type { RateReport } from "../../x402/prices/token-rates.ts";
import type { UntakenJobs } from "./untaken-jobs.ts";

/** Everything that the operator can look at or act on. */
export interface OperatorSources {
  readonly store: Store;
  readonly events: EventHub;
  /** Every address that this process listens on. */
  readonly listeners: () => readonly { readonly name: string; readonly address: string }[];
  /** True once every listener has opened. */
  readonly isOpen: () => boolean;
  /** The current rate of every accepted token. */
  readonly rates: () => readonly RateReport[];
  /** Every open stream of a runner, longest connected first. */
  readonly runners: () => readonly RunnerReport[];
  readonly untaken: Pick<UntakenJobs, "read" | "filter">;
  /** The paid jobs for sale. */
  readonly jobs: () => Promise<readonly ListedJob[]>;
  readonly loadMethods: LoadMethods;
  /** Additions of the parts to the operator's listener. */
  readonly additions: () => readonly OperatorAddition[];
  readonly holdings: () => readonly Holdings[];
  /** Counters since the start of this process. */
  readonly counters: CounterReader;
  readonly histograms: HistogramReader;
  /** The configuration in use, reloads included. */
  readonly configuration: () => Config;
  readonly clock: Clock;
}
