import type { WebhookEndpoint } from "../config/config.ts";
import { type JobCall, SERVICE_ID_METADATA } from "../core/job-call.ts";

/** Makes JobCalls from authentic webhook requests. */
export class WebhookProducer {
  readonly #serviceId: bigint;

  /** @param serviceId u64, stamped on every JobCall */
  constructor(serviceId: bigint) {
    this.#serviceId = serviceId;
  }

  jobCall(endpoint: WebhookEndpoint, body: Uint8Array): JobCall {
    return {
      origin: "webhook",
      jobId: endpoint.jobId,
      serviceId: this.#serviceId,
      body,
      metadata: {
        "X-WEBHOOK-ORIGIN": "webhook",
        "X-WEBHOOK-PATH": endpoint.path,
        ...(endpoint.name === undefined ? {} : { "X-WEBHOOK-NAME": endpoint.name }),
        [SERVICE_ID_METADATA]: this.#serviceId.toString(),
      },
    };
  }
}
