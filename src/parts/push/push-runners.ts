import { isDeepStrictEqual } from "node:util";
import type { Logger } from "pino";
import type { RunnerConfig } from "../../config/config.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import type { Dispatcher } from "../../delivery/dispatcher.ts";
import type { PushTargetConfig } from "./config.ts";
import type { LeaseTerms, PushTarget } from "./push-target.ts";

/** The runners that JobCalls are pushed to, beside those that subscribe. */
export class PushRunners {
  readonly #dispatcher: Dispatcher;
  readonly #terms: LeaseTerms;
  readonly #logger: Logger;
  readonly #clock: Clock;
  #targets: readonly { readonly config: PushTargetConfig; readonly target: PushTarget }[] = [];
  /** Targets that a reload removed, while they finish. */
  readonly #retiring = new Map<PushTarget, Promise<void>>();

  constructor(options: {
    readonly dispatcher: Dispatcher;
    readonly config: RunnerConfig;
    readonly logger: Logger;
    readonly clock?: Clock;
  }) {
    this.#dispatcher = options.dispatcher;
    const { leaseMs, maxAttempts, retryBaseMs, retryMaxMs } = options.config;
    this.#terms = { leaseMs, maxAttempts, backoff: { baseMs: retryBaseMs, maxMs: retryMaxMs } };
    this.#logger = options.logger;
    this.#clock = options.clock ?? systemClock;
  }

  /** Pushes to these targets from now on. Unchanged ones go on, removed ones finish what they have. */
  async use(configs: readonly PushTargetConfig[]): Promise<void> {
    const left = [...this.#targets];
    const kept = configs.map((config) => {
      const index = left.findIndex((entry) => isDeepStrictEqual(entry.config, config));
      return index === -1 ? undefined : left.splice(index, 1)[0];
    });
    // Only those who push need the HTTP client.
    const { PushTarget } = configs.length > 0 ? await import("./push-target.ts") : {};
    for (const { target } of left) {
      const retired = target.retire().finally(() => this.#retiring.delete(target));
      this.#retiring.set(target, retired);
    }
    this.#targets = configs.flatMap((config, i) => {
      const entry = kept[i];
      if (entry !== undefined || PushTarget === undefined) return entry ?? [];
      const [dispatcher, terms, clock, logger] = [this.#dispatcher, this.#terms, this.#clock, this.#logger];
      return { config, target: new PushTarget({ config, dispatcher, terms, clock, logger }) };
    });
  }

  /** Ends all requests. Comes after the dispatcher's drain, which waits for them. */
  async stop(): Promise<void> {
    const targets = [...this.#targets.map(({ target }) => target), ...this.#retiring.keys()];
    await Promise.all(targets.map((target) => target.stop()));
    await Promise.all(this.#retiring.values());
  }
}
