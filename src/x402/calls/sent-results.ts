import type { Logger } from "pino";
import type { Job } from "../../config/config.ts";
import { faultPoint } from "../../core/fault-points.ts";
import { jobKeyText } from "../../core/job-call.ts";
import type { CallState } from "../../store/contract/call-lookup.ts";
import type { Pruning } from "../../store/contract/pruning.ts";

/** Deletes the results of jobs with `store_answers = false` once their clients have read them. */
export class SentResults {
  readonly #jobs: ReadonlySet<string>;
  readonly #store: Pick<Pruning, "forgetResult">;
  readonly #logger: Logger;

  constructor(parts: {
    readonly jobs: readonly Job[];
    readonly store: Pick<Pruning, "forgetResult">;
    readonly logger: Logger;
  }) {
    this.#jobs = new Set(
      parts.jobs.flatMap(({ serviceId, jobIndex, storeAnswers }) =>
        storeAnswers === false ? jobKeyText(serviceId, jobIndex) : [],
      ),
    );
    this.#store = parts.store;
    this.#logger = parts.logger;
  }

  /**
   * Returns a function that deletes the result of a call, to be called once its client has read all of it. A result that was
   * not read completely, or was not deleted because of a stop or a crash, stays until it is sent again. Returns undefined
   * for a job whose results are kept.
   */
  forgetting({ callId, job }: Pick<CallState, "callId" | "job">): (() => Promise<void>) | undefined {
    const isKept = !this.#jobs.has(jobKeyText(job.serviceId, job.jobIndex));
    return isKept ? undefined : () => this.#forget(callId);
  }

  async #forget(callId: number): Promise<void> {
    faultPoint("before-forgetting");
    try {
      while (await this.#store.forgetResult(callId));
    } catch (error) {
      this.#logger.warn({ err: error, callId }, "could not forget a result that was sent");
    }
  }
}
