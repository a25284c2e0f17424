import type { X402Config } from "../../config/config.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";

/** Absolute URLs at which jobs are bought. The host is the configured one, never one that a request names. */
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
