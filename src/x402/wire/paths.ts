import type { X402Config } from "../../config/config.ts";
import { MAX_U64 } from "../../core/amounts.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";

const JOB_PATH = /^\/([a-z0-9-]+)\/jobs\/(0|[1-9][0-9]{0,19})\/(0|[1-9][0-9]{0,9})(\/[a-z0-9-]+)?$/;
const CALL_PATH = /^\/x402\/calls\/([1-9][0-9]{0,15})(\/result|\/events)?$/;
const MAX_U32 = 2 ** 32 - 1;

export interface JobPath extends JobKey {
  /** First segment of the path. */
  readonly protocol: string;
  /** Empty, or begins with `/`. */
  readonly tail: string;
}

/**
 * Parses a raw path as a route of a job. Ids are canonical decimals (u64 and u32), so percent-encoding, signs, leading zeros
 * and doubled or trailing slashes never reach a job.
 */
export function parseJobPath(path: string): JobPath | undefined {
  const match = JOB_PATH.exec(path);
  if (match === null) return undefined;
  const [, protocol = "", service = "", job, tail = ""] = match;
  const serviceId = BigInt(service);
  const jobIndex = Number(job);
  if (serviceId > MAX_U64 || jobIndex > MAX_U32) return undefined;
  return { protocol, serviceId, jobIndex, tail };
}

export interface CallPath {
  readonly callId: number;
  readonly tail: "" | "/result" | "/events";
}

/** Parses a raw path as a route of a paid call. */
export function parseCallPath(path: string): CallPath | undefined {
  const match = CALL_PATH.exec(path);
  if (match === null) return undefined;
  const callId = Number(match[1]);
  return Number.isSafeInteger(callId) ? { callId, tail: (match[2] ?? "") as CallPath["tail"] } : undefined;
}

/**
 * Returns the path of a paid call as its client sees it. A proxy may serve jobgate below a path, which the public URL then
 * contains.
 */
export function callPath(publicUrl: string, callId: number): string {
  const { pathname } = new URL(publicUrl);
  return `${pathname === "/" ? "" : pathname}/x402/calls/${callId}`;
}

/** Absolute URLs at which jobs are bought. Their host is always the configured host, never a host that a request names. */
export class JobUrls {
  readonly #publicUrl: string;
  /** Paths of the jobs that have a route. */
  readonly #paths: ReadonlyMap<string, string>;

  constructor({ publicUrl, jobs = [] }: Pick<X402Config, "publicUrl" | "jobs">) {
    this.#publicUrl = publicUrl;
    this.#paths = new Map(
      jobs.flatMap(({ serviceId, jobIndex, route }) =>
        route === undefined ? [] : [[jobKeyText(serviceId, jobIndex), route.path]],
      ),
    );
  }

  /**
   * Returns the URL of a job, or the template of its route, at which every protocol buys it.
   * @param protocol first segment of the path of a job without a route
   */
  of({ serviceId, jobIndex }: JobKey, protocol = "x402"): string {
    const key = jobKeyText(serviceId, jobIndex);
    return `${this.#publicUrl}${this.#paths.get(key) ?? `/${protocol}/jobs/${key}`}`;
  }
}
