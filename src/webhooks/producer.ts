import type { WebhookEndpoint } from "../config/config.ts";
import { type JobCall, SERVICE_ID_METADATA } from "../core/job-call.ts";
import { ForwardedHeaders, type JobRequest } from "../http/request.ts";
import { schemeOf } from "./auth/schemes.ts";

/** Makes the JobCalls of an endpoint's authentic requests. */
export class WebhookProducer {
  readonly #forwardedHeaders: ForwardedHeaders;
  /** Parts that all JobCalls of the endpoint have in common. */
  readonly #call: Pick<JobCall, "origin" | "jobId" | "serviceId" | "metadata">;

  /** @param options `serviceId` is the service ID of every JobCall, a u64 */
  constructor(options: { readonly endpoint: WebhookEndpoint; readonly serviceId: bigint }) {
    const { endpoint, serviceId } = options;
    const { deliveryId, eventTypeHeader } = schemeOf(endpoint);
    // Headers with a meaning in the sender's scheme come first.
    const names = [eventTypeHeader, deliveryId?.header, ...(endpoint.forwardHeaders ?? [])];
    this.#forwardedHeaders = new ForwardedHeaders(names.filter((name) => name !== undefined));
    const { jobId } = endpoint;
    this.#call = { origin: "webhook", jobId, serviceId, metadata: metadataOf(endpoint, serviceId) };
  }

  /** Reads the headers that the runner gets. @throws GatewayError `headers_too_large` */
  readHeaders(request: Pick<JobRequest, "headerValues" | "headers">): JobCall["requestMetadata"] {
    return this.#forwardedHeaders.read(request);
  }

  jobCall(accepted: {
    readonly body: Uint8Array;
    /** Result of {@link readHeaders}. */
    readonly requestMetadata?: JobCall["requestMetadata"];
    readonly order?: JobCall["order"];
  }): JobCall {
    const { body, requestMetadata = [], order } = accepted;
    // V8 11 makes a new hidden class for each object whose spread comes before other fields: 1.1 µs instead of 0.05.
    return { body, requestMetadata, order, ...this.#call };
  }
}

/** Makes the metadata of an endpoint's JobCalls. It is frozen, so that its encoding is cached. */
function metadataOf({ path, name }: WebhookEndpoint, serviceId: bigint): JobCall["metadata"] {
  return Object.freeze({
    "X-WEBHOOK-ORIGIN": "webhook",
    "X-WEBHOOK-PATH": path,
    ...(name === undefined ? {} : { "X-WEBHOOK-NAME": name }),
    [SERVICE_ID_METADATA]: serviceId.toString(),
  });
}
