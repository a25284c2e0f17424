import type { Config, Job } from "../../config/config.ts";
import { jobKeyText } from "../../core/job-call.ts";
import type { Pause } from "./store/ledger.ts";

/** A job, a webhook endpoint, or a runner of this process, such as an API: whatever an operator can pause. */
export interface Pausable extends Pick<Pause, "kind" | "key" | "jobIds"> {
  /** Empty if it has no name beside its key. */
  readonly name: string;
  /** A pause always refuses new requests: they are answered at once, or charged after their job. */
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
  const { name = "", runner, charge = [] } = job ?? {};
  const jobIds = [BigInt(key.slice(key.indexOf("/") + 1))];
  const alwaysRefuses = runner !== undefined || charge.some((kind) => kind !== "before");
  return { kind: "job", key, name, jobIds, alwaysRefuses };
}

/** Returns kind and key of something, as operators can write them. */
export function nameOf({ kind, key }: Pick<Pause, "kind" | "key">): string {
  return `${kind}:${key}`;
}

/**
 * Finds what an operator names: by its key, its name or the index of a job, after its kind and a colon or without.
 * @returns all that have the name
 */
export function findNamed<One extends Pick<Pausable, "kind" | "key" | "name">>(
  all: readonly One[],
  text: string,
): One[] {
  const names = ({ key, name, kind }: One) => [key, name, ...(kind === "job" ? [key.split("/")[1]] : [])];
  const exact = all.filter((one) => one.key === text || nameOf(one) === text);
  if (exact.length > 0) return exact;
  return all.filter((one) => names(one).some((name) => name === text || `${one.kind}:${name}` === text));
}
