import type { Config } from "../config/config.ts";
import type { Clock } from "../core/clock.ts";
import type { EventHub } from "../core/events.ts";
import type { CounterReader } from "../core/instruments.ts";
import type { RunnerReport } from "../delivery/subscription.ts";
import type { Store } from "../store/store.ts";
import type { ListedJob } from "../x402/jobs/listing.ts";
import type { RateReport } from "../x402/prices/token-rates.ts";

/** The sender of callbacks, as far as the operator acts on it. */
export interface OperatedSender {
  /** URLs of the operator. */
  readonly urls: readonly string[];
  /** Sends what is due now. */
  poke(): void;
  /** Sends one test message to a URL of the operator. @returns the reason if the message could not be delivered */
  test(url: string): Promise<string | undefined>;
}

/** Everything that the operator can look at or act on. */
export interface OperatorSources {
  readonly store: Store;
  readonly events: EventHub;
  /** Every address that this process listens on. */
  readonly listeners: () => readonly { readonly name: string; readonly address: string }[];
  /** The current rate of every accepted token. */
  readonly rates: () => readonly RateReport[];
  /** Every open stream of a runner, longest connected first. */
  readonly runners: () => readonly RunnerReport[];
  /** The paid jobs for sale. */
  readonly jobs: () => Promise<readonly ListedJob[]>;
  /** Undefined in a build without callbacks. */
  readonly callbacks: OperatedSender | undefined;
  /** Counters since the start of this process. */
  readonly counters: CounterReader;
  /** The configuration in use, reloads included. */
  readonly configuration: () => Config;
  readonly clock: Clock;
}
