import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import { BackgroundLoop } from "../../core/background-loop.ts";
import type { Clock } from "../../core/clock.ts";
import { jobLabel } from "../../core/route.ts";
import { within } from "../../core/waiting.ts";
import type { RunnerReport } from "../../delivery/subscription.ts";
import type { GaugeValue, OwnGauge } from "../../part.ts";
import type { CalledJob } from "../../store/contract/work-queue.ts";
import type { JobIdFilter, Store, WaitingJob } from "../../store/store.ts";

const LOOK_EVERY_MS = 10_000;
/** Time that a job waits without a runner before the log says so, because runners reconnect after a restart. */
const GRACE_MS = 30_000;
/** Longest time to count jobs. If the store takes longer, the metric is left out, so that a scrape does not hang. */
const COUNT_TIMEOUT_MS = 3_000;

export interface UntakenJob extends WaitingJob {
  /** Empty if the configuration has none. */
  readonly name: string;
}

interface Found {
  readonly job: UntakenJob;
  /** Time of the first check that found the job, on the monotonic clock. */
  readonly since: number;
  readonly isLogged: boolean;
}

/**
 * Selects the jobs that no stream of this process takes now. A paused stream takes no job.
 * @param reserved jobs that go only to streams that reserve them, whether there are such streams or not
 */
export function untakenBy(runners: readonly RunnerReport[], reserved: readonly bigint[]): JobIdFilter {
  const taking = runners.filter(({ maxInFlight }) => maxInFlight > 0);
  const taken = new Set(
    taking.flatMap(({ jobIds, reserves }) => jobIds.filter((jobId) => reserves || !reserved.includes(jobId))),
  );
  if (taking.every(({ jobIds }) => jobIds.length > 0)) return { kind: "except", jobIds: [...taken] };
  return { kind: "only", jobIds: reserved.filter((jobId) => !taken.has(jobId)) };
}

/** Finds the jobs that wait and that no runner connected to this process takes, for the API, the metrics and the log. */
export class UntakenJobs {
  readonly #store: Pick<Store, "countWaiting" | "status">;
  readonly #runners: () => readonly RunnerReport[];
  readonly #reserved: () => readonly bigint[];
  readonly #configuration: () => Pick<Config, "serviceId" | "x402" | "webhooks">;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #loop: BackgroundLoop;
  #found: ReadonlyMap<string, Found> = new Map();

  constructor(options: {
    readonly store: Pick<Store, "countWaiting" | "status">;
    readonly runners: () => readonly RunnerReport[];
    /** Returns the jobs that go only to streams that reserve them. */
    readonly reserved: () => readonly bigint[];
    readonly configuration: () => Pick<Config, "serviceId" | "x402" | "webhooks">;
    readonly logger: Logger;
    /** Monotonic. */
    readonly clock: Clock;
  }) {
    const { store, runners, reserved, configuration, logger, clock } = options;
    this.#store = store;
    this.#runners = runners;
    this.#reserved = reserved;
    this.#configuration = configuration;
    this.#logger = logger;
    this.#clock = clock;
    this.#loop = new BackgroundLoop({
      step: async () => {
        await this.look();
        return LOOK_EVERY_MS;
      },
      retryMs: LOOK_EVERY_MS,
      onTrouble: (err) => logger.warn({ err }, "could not count the jobs that wait for a runner"),
    });
  }

  start(): Promise<void> {
    return this.#loop.start();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  /** Selects the jobs that no stream takes now. */
  filter(): JobIdFilter {
    return untakenBy(this.#runners(), this.#reserved());
  }

  /** Returns the jobs by the number of their waiting JobCalls, the highest first. */
  async read(): Promise<UntakenJob[]> {
    const waiting = await this.#store.countWaiting(this.filter());
    const names = new Map(this.#named().map((job) => [keyOf(job), job.name]));
    return waiting.map((job) => ({ ...job, name: names.get(keyOf(job)) ?? "" }));
  }

  /** Logs a job that has had no runner for a while, and later that it has one. */
  async look(): Promise<void> {
    const now = this.#clock();
    const before = this.#found;
    // A lookup for operators starts a thread, which an idle gateway does not need.
    const jobs = this.#store.status().pending === 0 ? [] : await this.read();
    this.#found = new Map(jobs.map((job) => [keyOf(job), this.#seen(job, before.get(keyOf(job)), now)]));
    for (const [key, { job, isLogged }] of before)
      if (isLogged && !this.#found.has(key))
        this.#logger.info(fieldsOf(job), "a runner takes the job again, or none of its calls waits");
  }

  #seen(job: UntakenJob, before: Found | undefined, now: number): Found {
    const { since = now, isLogged = false } = before ?? {};
    const isDue = !isLogged && now - since >= GRACE_MS;
    if (isDue)
      this.#logger.warn(
        { ...fieldsOf(job), waiting: job.count, oldestAcceptedAt: new Date(job.oldestAt).toISOString() },
        "jobs wait, and no runner that is connected here takes them",
      );
    return { job, since, isLogged: isLogged || isDue };
  }

  /** Has 0 for the other jobs of the configuration, so that the lowest value of several replicas is the job's value. */
  readonly gauge: OwnGauge = {
    name: "jobgate_jobs_without_runner",
    help: "JobCalls that wait and that no runner connected to this process takes, by job.",
    labels: ["origin", "service_id", "job_id", "job_name"],
    read: async () => {
      const counted = await within(
        COUNT_TIMEOUT_MS,
        this.read().catch(() => undefined),
      );
      if (counted === undefined) return [];
      const values = new Map(this.#named().map((job) => [keyOf(job), sampleOf(job, 0)]));
      for (const job of counted) values.set(keyOf(job), sampleOf(job, job.count));
      return [...values.values()];
    },
  };

  /**
   * Lists each job of the configuration once. A job that several webhook endpoints share has the first name of these
   * endpoints.
   */
  #named(): (CalledJob & { readonly name: string })[] {
    const { serviceId, x402, webhooks } = this.#configuration();
    const paid = (x402?.jobs ?? []).map(({ serviceId, jobIndex, ...job }) => {
      return { origin: "x402", serviceId, jobId: BigInt(jobIndex), name: jobLabel(job) ?? "" } as const;
    });
    const names = new Map<bigint, string>();
    for (const { jobId, name = "" } of webhooks?.endpoints ?? []) names.set(jobId, names.get(jobId) || name);
    const ofWebhooks = [...names].map(([jobId, name]) => {
      return { origin: "webhook", serviceId, jobId, name } as const;
    });
    return [...paid, ...ofWebhooks];
  }
}

function keyOf({ origin, serviceId, jobId }: CalledJob): string {
  return `${origin} ${serviceId}/${jobId}`;
}

function fieldsOf({ origin, serviceId, jobId, name }: UntakenJob) {
  return { origin, job: `${serviceId}/${jobId}`, ...(name !== "" && { jobName: name }) };
}

function sampleOf(
  { origin, serviceId, jobId, name }: CalledJob & { name: string },
  value: number,
): GaugeValue {
  return [value, { origin, service_id: String(serviceId), job_id: String(jobId), job_name: name }];
}
