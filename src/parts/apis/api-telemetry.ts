import type { Logger } from "pino";
import type { JobKey } from "../../core/job-call.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { HttpOutcome } from "../outbound/http-answer.ts";
import type { RunOutcome } from "../outbound/http-runner.ts";

/** Measures how long an API takes for its calls, and logs the calls that failed. */
export class ApiTelemetry {
  readonly #api: string;
  readonly #telemetry: Pick<Telemetry, "observe">;
  readonly #logger: Logger;

  constructor(api: string, telemetry: Pick<Telemetry, "observe">, logger: Logger) {
    this.#api = api;
    this.#telemetry = telemetry;
    this.#logger = logger;
  }

  /**
   * Begins a call for a job.
   * @param call fields of the log's line
   * @returns a function that ends the call with its outcome
   */
  begin(
    job: JobKey,
    call: {
      readonly callId: number;
      readonly attempt: number;
      readonly traceparent: string | undefined;
    },
  ): (outcome: HttpOutcome, run: RunOutcome) => void {
    const startedAt = performance.now();
    return (ended, run) => {
      const secs = (performance.now() - startedAt) / 1_000;
      const outcome = ended.kind === "answered" ? String(ended.answer.status) : ended.kind;
      const ids = { service_id: String(job.serviceId), job_id: String(job.jobIndex) };
      this.#telemetry.observe("jobgate_api_call_duration_seconds", { api: this.#api, ...ids, outcome }, secs);
      // An answer that is passed on is not a failure, whatever its status is.
      if (run.kind === "done" && run.hasWrittenBody === true) return;
      const reason = ended.kind === "answered" ? undefined : ended.reason;
      this.#logger.warn({ api: this.#api, ...call, outcome, reason, secs }, "a call of an API failed");
    };
  }
}
