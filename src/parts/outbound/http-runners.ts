import { isDeepStrictEqual } from "node:util";
import type { HttpRunner } from "./http-runner.ts";

/** The servers of one kind that run jobs, at the configuration in use. */
export class HttpRunners<Config> {
  readonly #open: (config: Config) => HttpRunner;
  #runners: readonly { readonly config: Config; readonly runner: HttpRunner }[] = [];
  /** Runners that a reload removed, until they have finished. */
  readonly #retiring = new Map<HttpRunner, Promise<void>>();

  constructor(open: (config: Config) => HttpRunner) {
    this.#open = open;
  }

  /**
   * Sends JobCalls to the servers of these configurations from now on. Unchanged runners continue, and removed runners
   * finish the JobCalls that they have.
   */
  use(configs: readonly Config[]): void {
    const left = [...this.#runners];
    const kept = configs.map((config) => {
      const index = left.findIndex((entry) => isDeepStrictEqual(entry.config, config));
      return index === -1 ? undefined : left.splice(index, 1)[0];
    });
    for (const { runner } of left) {
      const retired = runner.retire().finally(() => this.#retiring.delete(runner));
      this.#retiring.set(runner, retired);
    }
    this.#runners = configs.map((config, i) => kept[i] ?? { config, runner: this.#open(config) });
  }

  /** Finds a runner that is in use. */
  find(isWanted: (config: Config) => boolean): HttpRunner | undefined {
    return this.#runners.find(({ config }) => isWanted(config))?.runner;
  }

  /** Ends all requests. Call it after the dispatcher's drain, which waits for the requests. */
  async stop(): Promise<void> {
    const runners = [...this.#runners.map(({ runner }) => runner), ...this.#retiring.keys()];
    await Promise.all(runners.map((runner) => runner.stop()));
    await Promise.all(this.#retiring.values());
  }
}
