import type { WebhookEndpoint } from "../config/config.ts";
import { type JobCall, SERVICE_ID_METADATA } from "../core/job-call.ts";

/** Makes JobCalls from authentic webhook requests. */
export class WebhookProducer {
  readonly #serviceId: bigint;
  /** Frozen, so that its encoding is kept too. */
  readonly #metadata = new WeakMap<WebhookEndpoint, JobCall["metadata"]>();

  /** @param serviceId u64, stamped on every JobCall */
  constructor(serviceId: bigint) {
    this.#serviceId = serviceId;
  }

  jobCall(endpoint: WebhookEndpoint, given: Pick<JobCall, "body" | "requestMetadata">): JobCall {
    const { jobId } = endpoint;
    return {
      origin: "webhook",
      jobId,
      serviceId: this.#serviceId,
      metadata: this.#metadata.get(endpoint) ?? this.#makeMetadata(endpoint),
      ...given,
    };
  }

  #makeMetadata(endpoint: WebhookEndpoint): JobCall["metadata"] {
    const metadata = Object.freeze({
      "X-WEBHOOK-ORIGIN": "webhook",
      "X-WEBHOOK-PATH": endpoint.path,
      ...(endpoint.name === undefined ? {} : { "X-WEBHOOK-NAME": endpoint.name }),
      [SERVICE_ID_METADATA]: this.#serviceId.toString(),
    });
    this.#metadata.set(endpoint, metadata);
    return metadata;
  }
}
