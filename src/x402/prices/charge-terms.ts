import type { X402Config } from "../../config/config.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { Facilitators } from "../facilitators/facilitators.ts";
import type { Methods } from "../methods/methods.ts";
import type { ChargeTerms } from "../wire/offer.ts";

/** Longest run of a job whose `max_run_secs` is not configured. */
const DEFAULT_RUN_SECS = 300;

/** Terms of the jobs that are charged after they ran, at one configuration. */
export class JobChargeTerms {
  readonly #jobs: ReadonlyMap<string, Omit<ChargeTerms, "settlers">>;
  readonly #networks: readonly string[];
  readonly #facilitators: Pick<Facilitators, "settlerOn">;
  /** Those returned last, by job. */
  readonly #last = new Map<string, ChargeTerms>();

  constructor(parts: {
    readonly config: Pick<X402Config, "jobs" | "acceptedTokens" | "settleMarginSecs">;
    readonly facilitators: Pick<Facilitators, "settlerOn">;
    readonly methods: Methods;
  }) {
    const { jobs = [], acceptedTokens, settleMarginSecs } = parts.config;
    this.#facilitators = parts.facilitators;
    this.#networks = [...new Set(acceptedTokens.map(({ network }) => network))];
    const { ceilingScheme: scheme } = parts.methods;
    const methods = new Set(
      [...parts.methods].flatMap(({ name }) => (parts.methods.chargesPart(name) ? name : [])),
    );
    const beforeOnly = new Set([...parts.methods].flatMap(({ name, endsSoon }) => (endsSoon ? name : [])));
    this.#jobs = new Map(
      jobs.flatMap(({ serviceId, jobIndex, charge, leastCharge, maxRunSecs = DEFAULT_RUN_SECS }) => {
        if (charge === undefined) return [];
        const terms = {
          kinds: charge,
          methods,
          scheme,
          ...(beforeOnly.size > 0 && { beforeOnly }),
          runSecs: maxRunSecs + settleMarginSecs,
          leastCharge,
        };
        return [[jobKeyText(serviceId, jobIndex), terms] as const];
      }),
    );
  }

  /** Returns the terms of a job, the same object as long as they are the same; undefined if it is only charged before it runs. */
  of({ serviceId, jobIndex }: JobKey): ChargeTerms | undefined {
    const key = jobKeyText(serviceId, jobIndex);
    const terms = this.#jobs.get(key);
    if (terms === undefined) return undefined;
    const settlers = new Map(
      this.#networks.flatMap((network) => {
        const address = this.#facilitators.settlerOn(network);
        return address === undefined ? [] : [[network, address] as const];
      }),
    );
    const last = this.#last.get(key);
    const isSame = (network: string) => last?.settlers.get(network) === settlers.get(network);
    if (last !== undefined && this.#networks.every(isSame)) return last;
    const changed = { ...terms, settlers };
    this.#last.set(key, changed);
    return changed;
  }
}
