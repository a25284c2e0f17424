import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import type { Dispatcher } from "../../delivery/dispatcher.ts";
import { API } from "./config.ts";
import type { ReservedJobs } from "./store/module.ts";

/** Keeps the JobCalls of APIs' jobs from runners, even while no API of the configuration does the jobs. */
export class JobReservation {
  readonly #ledger: ReservedJobs;
  readonly #dispatcher: Pick<Dispatcher, "reserve">;
  readonly #logger: Logger;
  /** Reserved jobs that no API of the configuration does. */
  #left: ReadonlySet<bigint> = new Set();
  #isStarted = false;

  constructor(parts: {
    readonly ledger: ReservedJobs;
    readonly dispatcher: Pick<Dispatcher, "reserve">;
    readonly logger: Logger;
  }) {
    this.#ledger = parts.ledger;
    this.#dispatcher = parts.dispatcher;
    this.#logger = parts.logger;
  }

  /** Reserves the jobs of the APIs of a configuration, before their JobCalls are accepted. */
  async add(config: JobTables): Promise<void> {
    const { ofApis } = jobsOf(config);
    // A reload without APIs works without the store.
    if (ofApis.size === 0) return;
    const known = (await this.#ledger.listReservedJobs()).map(({ jobId }) => jobId);
    const added = [...ofApis].filter((jobId) => !known.includes(jobId));
    if (added.length > 0) await this.#ledger.reserveJobs(added);
  }

  /** Lets runners have the JobCalls of jobs that runners do now, and logs the other jobs that no API does, if their JobCalls wait. */
  async apply(config: JobTables): Promise<void> {
    const { ofApis, ofRunners } = jobsOf(config);
    const known = await this.#ledger.listReservedJobs();
    const released = known.flatMap(({ jobId }) => (ofRunners.has(jobId) ? jobId : []));
    if (released.length > 0) await this.#ledger.releaseJobs(released);
    const reserved = known.filter(({ jobId }) => !ofRunners.has(jobId));
    this.#dispatcher.reserve(reserved.map(({ jobId }) => jobId));
    this.#left = new Set(reserved.flatMap(({ jobId }) => (ofApis.has(jobId) ? [] : jobId)));
    for (const { jobId, waiting: due, leased } of reserved) {
      // An API that a reload removes finishes its calls. After a kill, the leases last longer than the process that had them.
      const waiting = this.#isStarted ? due : due + leased;
      if (waiting > 0 && this.#left.has(jobId))
        this.#logger.warn(
          { jobId: String(jobId), waiting },
          "calls wait for a job of an API that is not configured: put it back, or configure it without api for runners",
        );
    }
    this.#isStarted = true;
  }

  /** Returns why the JobCalls of a job wait, if no API of the configuration does the job; otherwise nothing. */
  waitReasons(jobId: bigint): string[] {
    if (!this.#left.has(jobId)) return [];
    return [
      `No API of the configuration does job ${jobId}: put the job back, or configure it without api for runners.`,
    ];
  }
}

/** Tables that name jobs. */
type JobTables = Pick<Config, "x402" | "webhooks">;

/** Returns the IDs of the jobs that APIs do, and of the other jobs of a configuration. */
function jobsOf({ x402, webhooks }: JobTables) {
  const jobs = x402?.jobs ?? [];
  const ofApis = new Set(
    jobs.flatMap(({ runner, jobIndex }) => (runner?.kind === API ? BigInt(jobIndex) : [])),
  );
  const named = [
    ...jobs.map(({ jobIndex }) => BigInt(jobIndex)),
    ...[...(x402?.jobPricing.keys() ?? [])].map((key) => BigInt(key.slice(key.indexOf("/") + 1))),
    ...(webhooks?.endpoints ?? []).map(({ jobId }) => jobId),
  ];
  return { ofApis, ofRunners: new Set(named.filter((jobId) => !ofApis.has(jobId))) };
}
