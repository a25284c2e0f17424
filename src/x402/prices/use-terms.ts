import type { X402Config } from "../../config/config.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { Facilitators } from "../facilitators/facilitators.ts";
import type { Methods } from "../methods/methods.ts";
import type { UseTerms } from "../wire/offer.ts";

/** Longest run of a job whose `max_run_secs` is not configured. */
const DEFAULT_RUN_SECS = 300;

/** Terms of the jobs that are paid by use, at one configuration. */
export class JobUseTerms {
  readonly #jobs: ReadonlyMap<string, Omit<UseTerms, "facilitators">>;
  readonly #networks: readonly string[];
  readonly #facilitators: Pick<Facilitators, "settlesByUse">;
  /** Those returned last, by job. */
  readonly #last = new Map<string, UseTerms>();

  constructor(parts: {
    readonly config: Pick<X402Config, "jobs" | "acceptedTokens" | "settleMarginSecs">;
    readonly facilitators: Pick<Facilitators, "settlesByUse">;
    readonly methods: Methods;
  }) {
    const { jobs = [], acceptedTokens, settleMarginSecs } = parts.config;
    this.#facilitators = parts.facilitators;
    this.#networks = [...new Set(acceptedTokens.map(({ network }) => network))];
    const methods = new Set(
      [...parts.methods].flatMap(({ name, charges }) => (charges.includes("used") ? name : [])),
    );
    this.#jobs = new Map(
      jobs.flatMap(({ serviceId, jobIndex, charge, minCharge, maxRunSecs = DEFAULT_RUN_SECS }) => {
        if (charge?.includes("used") !== true) return [];
        const isFixedToo = charge.includes("fixed");
        const terms = {
          methods,
          isFixedToo,
          runSecs: maxRunSecs + settleMarginSecs,
          minCharge,
        };
        return [[jobKeyText(serviceId, jobIndex), terms] as const];
      }),
    );
  }

  /** Returns the terms of a job, the same object as long as they are the same; undefined if it is not paid by use. */
  of({ serviceId, jobIndex }: JobKey): UseTerms | undefined {
    const key = jobKeyText(serviceId, jobIndex);
    const terms = this.#jobs.get(key);
    if (terms === undefined) return undefined;
    const facilitators = new Map(
      this.#networks.flatMap((network) => {
        const address = this.#facilitators.settlesByUse(network);
        return address === undefined ? [] : [[network, address] as const];
      }),
    );
    const last = this.#last.get(key);
    const isSame = (network: string) => last?.facilitators.get(network) === facilitators.get(network);
    if (last !== undefined && this.#networks.every(isSame)) return last;
    const changed = { ...terms, facilitators };
    this.#last.set(key, changed);
    return changed;
  }
}
