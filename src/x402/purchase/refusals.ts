import type { ErrorCode, GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { Listing } from "../jobs/listing.ts";
import type { X402Stats } from "../stats.ts";
import type { RefusedPayments, RefusedRequest } from "./refused-payments.ts";

/** Receives the refusals of all doors. */
export class Refusals {
  readonly #listing: Pick<Listing, "has">;
  readonly #stats: X402Stats;
  readonly #telemetry: Telemetry;
  readonly #refused: RefusedPayments;

  constructor(parts: {
    readonly listing: Pick<Listing, "has">;
    readonly stats: X402Stats;
    readonly telemetry: Telemetry;
    readonly refused: RefusedPayments;
  }) {
    this.#listing = parts.listing;
    this.#stats = parts.stats;
    this.#telemetry = parts.telemetry;
    this.#refused = parts.refused;
  }

  count(code: ErrorCode, job: JobKey): void {
    this.#stats.countRefusal(code);
    const labels = { service_id: String(job.serviceId), job_id: String(job.jobIndex), error: code };
    if (this.#listing.has(job)) this.#telemetry.count("jobgate_job_refusals_total", labels);
  }

  /** Counts the refusal, and keeps it for the operator if the request carried a payment. */
  add(refusal: GatewayError, refused: RefusedRequest): void {
    this.count(refusal.code, refused.job);
    this.#refused.note(refusal, refused);
  }
}
