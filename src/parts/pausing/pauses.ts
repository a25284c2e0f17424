import type { Logger } from "pino";
import type { Config, Job, JobRunner } from "../../config/config.ts";
import { BackgroundLoop } from "../../core/background-loop.ts";
import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { jobLabel, routeText } from "../../core/route.ts";
import type { Dispatcher } from "../../delivery/dispatcher.ts";
import type { GaugeValue, OwnGauge } from "../../part.ts";
import type { CalledJob } from "../../store/contract/work-queue.ts";
import type { Terms } from "../../x402/purchase/terms.ts";
import type { Pause, PauseLedger } from "./store/ledger.ts";

/** Time after which other replicas know of a pause. */
const POLL_MS = 500;
/**
 * Value of Retry-After. The time of a resume is not known. A minute is short for a client, and costs jobgate little.
 */
const RETRY_AFTER_SECS = "60";

/** Pauses as this process knows them. Keeps the paused jobs from runners, and refuses requests for them. */
export class Pauses {
  readonly #ledger: PauseLedger;
  readonly #dispatcher: Pick<Dispatcher, "hold">;
  readonly #configuration: () => PausedTables;
  /** Undefined if only this process changes the store. */
  readonly #loop: BackgroundLoop | undefined;
  #pauses: readonly Pause[] = [];
  #reading: Promise<void> = Promise.resolve();
  /** Names of the jobs, endpoints and runners whose requests are refused. */
  #refused: ReadonlySet<string> = new Set();
  /** IDs of the jobs whose requests are refused. */
  #refusedIds: ReadonlySet<bigint> = new Set();

  constructor(parts: {
    readonly ledger: PauseLedger;
    readonly dispatcher: Pick<Dispatcher, "hold">;
    readonly configuration: () => PausedTables;
    /** True if other processes can change the store. */
    readonly isShared: boolean;
    readonly logger: Logger;
  }) {
    const { ledger, dispatcher, configuration, isShared, logger } = parts;
    this.#ledger = ledger;
    this.#dispatcher = dispatcher;
    this.#configuration = configuration;
    if (isShared)
      this.#loop = new BackgroundLoop({
        step: async () => {
          await this.read();
          return POLL_MS;
        },
        firstMs: POLL_MS,
        retryMs: POLL_MS,
        onTrouble: (err) => logger.warn({ err }, "could not read what is paused: it stays as it was"),
      });
  }

  /** Pauses, the longest first. */
  get all(): readonly Pause[] {
    return this.#pauses;
  }

  async start(): Promise<void> {
    await this.read();
    await this.#loop?.start();
  }

  async stop(): Promise<void> {
    await this.#loop?.stop();
  }

  /** Reads the pauses and applies them. Readings run one after the other, so that an older reading never replaces a newer one. */
  read(): Promise<void> {
    this.#reading = this.#reading.catch(() => undefined).then(() => this.#readNow());
    return this.#reading;
  }

  async #readNow(): Promise<void> {
    const pauses = await this.#ledger.listPauses();
    if (JSON.stringify(pauses, toText) === JSON.stringify(this.#pauses, toText)) return;
    this.#pauses = pauses;
    this.apply();
  }

  /** Applies the pauses to a configuration. */
  apply(configuration = this.#configuration()): void {
    const pausables = new Map(pausablesOf(configuration).map((one) => [nameOf(one), one]));
    const refused = new Set<string>();
    const held = new Set<bigint>();
    const refusedIds = new Set<bigint>();
    for (const pause of this.#pauses) {
      const found = pausables.get(nameOf(pause));
      const jobIds = [...pause.jobIds, ...(found?.jobIds ?? [])];
      for (const jobId of jobIds) held.add(jobId);
      if (!pause.refusesAccepts && !found?.alwaysRefuses) continue;
      refused.add(nameOf(pause));
      for (const jobId of jobIds) refusedIds.add(jobId);
    }
    for (const { serviceId, jobIndex, runner } of configuration.x402?.jobs ?? [])
      if (runner !== undefined && refused.has(nameOfRunner(runner)))
        refused.add(nameOfJob({ serviceId, jobIndex }));
    this.#refused = refused;
    this.#refusedIds = refusedIds;
    this.#dispatcher.hold([...held]);
  }

  /** Pauses something, and applies it. */
  async pause(
    { kind, key, jobIds }: Pausable,
    how: Pick<Pause, "refusesAccepts" | "by" | "note">,
  ): Promise<Pause> {
    const pause = await this.#ledger.savePause({ kind, key, jobIds, ...how });
    await this.read();
    return pause;
  }

  /** Ends a pause. @returns false if there was none */
  async resume(pause: Pick<Pause, "kind" | "key">): Promise<boolean> {
    const ended = await this.#ledger.endPause(pause);
    await this.read();
    return ended !== undefined;
  }

  /** @throws GatewayError `job_paused` for a webhook endpoint whose requests are refused */
  requireEndpoint(path: string): void {
    this.#require(nameOf({ kind: "endpoint", key: path }), "This endpoint is paused: send this again later.");
  }

  /**
   * Finds the pauses of a job by its ID, by which runners also select jobs.
   * @throws GatewayError `job_paused` for a job whose new JobCalls are refused
   */
  requireId({ jobId }: Pick<CalledJob, "jobId">): void {
    if (this.#refusedIds.has(jobId)) throw paused("The job is paused: try again later.");
  }

  /**
   * Conditions on the sale of jobs. The last check comes right before the payment, because a pause can come during the
   * other checks.
   */
  readonly terms: Terms = {
    requireOpen: (job) => this.#requireJob(job),
    requireOpenUnpaid: ({ job, runner }) => {
      if (job !== undefined) this.#requireJob(job);
      if (runner !== undefined) this.#require(nameOfRunner(runner), "The API is paused: try again later.");
    },
    checks: [
      {
        name: "pause",
        before: "settlement",
        refusals: ["job_paused"],
        run: ({ job }) => void this.#requireJob(job),
      },
    ],
  };

  readonly gauge: OwnGauge = {
    name: "jobgate_paused",
    help: "1 for each job, webhook endpoint and API that is paused, by whether new requests are refused.",
    labels: ["kind", "key", "accepts"],
    read: () =>
      this.#pauses.map((pause): GaugeValue => {
        const accepts = this.#refused.has(nameOf(pause)) ? "refused" : "go_on";
        return [1, { kind: pause.kind, key: pause.key, accepts }];
      }),
  };

  #requireJob(job: JobKey): void {
    this.#require(nameOfJob(job), "The job is paused. Nothing was charged: try again later.");
  }

  #require(name: string, message: string): void {
    if (this.#refused.has(name)) throw paused(message);
  }
}

function paused(message: string): GatewayError {
  return new GatewayError("job_paused", message, { headers: { "retry-after": RETRY_AFTER_SECS } });
}

function nameOfJob({ serviceId, jobIndex }: JobKey): string {
  return nameOf({ kind: "job", key: jobKeyText(serviceId, jobIndex) });
}

function nameOfRunner({ kind, name }: JobRunner): string {
  return nameOf({ kind, key: name });
}

function toText(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}

/** A job, a webhook endpoint, or a runner of this process, such as an API: whatever an operator can pause. */
export interface Pausable extends Pick<Pause, "kind" | "key" | "jobIds"> {
  /** Empty if it has no name beside its key. */
  readonly name: string;
  /** Further texts that name it: title and route of a job. */
  readonly aliases?: readonly string[];
  /**
   * True if a pause always refuses new requests, because they are answered at once, or are charged after their jobs.
   */
  readonly alwaysRefuses: boolean;
}

/** Tables that name what can be paused. */
export type PausedTables = Pick<Config, "x402" | "webhooks">;

/** Returns whatever can be paused at a configuration: jobs, then endpoints, then runners of this process. */
export function pausablesOf({ x402, webhooks }: PausedTables): Pausable[] {
  const jobs = x402?.jobs ?? [];
  const described = new Map(jobs.map((job) => [jobKeyText(job.serviceId, job.jobIndex), job]));
  const keys = new Set([...described.keys(), ...(x402?.jobPricing.keys() ?? [])]);
  const runners = new Map<string, Pausable>();
  for (const { runner, jobIndex } of jobs) {
    if (runner === undefined) continue;
    const { kind, name: key } = runner;
    const known = runners.get(nameOf({ kind, key }));
    const jobIds = [...(known?.jobIds ?? []), BigInt(jobIndex)];
    runners.set(nameOf({ kind, key }), { kind, key, name: "", jobIds, alwaysRefuses: true });
  }
  return [
    ...[...keys].map((key) => toPausableJob(key, described.get(key))),
    ...(webhooks?.endpoints ?? []).map(({ path: key, jobId, name = "" }) => {
      return { kind: "endpoint", key, name, jobIds: [jobId], alwaysRefuses: false };
    }),
    ...runners.values(),
  ];
}

function toPausableJob(key: string, job: Job | undefined): Pausable {
  const { runner, charge = [], title, route } = job ?? {};
  const routes =
    route === undefined
      ? []
      : [routeText(route), ...route.methods.map((method) => `${method} ${route.path}`)];
  const jobIds = [BigInt(key.slice(key.indexOf("/") + 1))];
  const alwaysRefuses = runner !== undefined || charge.some((kind) => kind !== "before");
  const aliases = [...(title === undefined ? [] : [title]), ...routes];
  return { kind: "job", key, name: jobLabel(job ?? {}) ?? "", aliases, jobIds, alwaysRefuses };
}

/** Returns kind and key of something, as operators can write them. */
export function nameOf({ kind, key }: Pick<Pause, "kind" | "key">): string {
  return `${kind}:${key}`;
}

/**
 * Finds what an operator names by its key, name or alias, or by the index of a job. The kind and a colon can precede
 * the name.
 * @returns everything that has the name
 */
export function findNamed<One extends Pick<Pausable, "kind" | "key" | "name" | "aliases">>(
  all: readonly One[],
  text: string,
): One[] {
  const names = ({ key, name, aliases = [], kind }: One) => [
    // The name of an endpoint without a name is empty.
    ...[key, name, ...aliases].filter((one) => one !== ""),
    ...(kind === "job" ? [key.split("/")[1]] : []),
  ];
  const exact = all.filter((one) => one.key === text || nameOf(one) === text);
  if (exact.length > 0) return exact;
  return all.filter((one) => names(one).some((name) => name === text || `${one.kind}:${name}` === text));
}
