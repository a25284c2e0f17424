import type { WebhookEndpoint } from "../config/config.ts";
import { GatewayError } from "../errors.ts";
import { jsonResponse } from "../http/http-response.ts";
import type { RouteHandler } from "../http/routes.ts";
import type { Intake } from "../store/store.ts";
import { isAuthentic } from "./auth/authenticate.ts";
import type { WebhookProducer } from "./webhook-producer.ts";

export interface WebhookRouteOptions {
  readonly endpoint: WebhookEndpoint;
  readonly maxBodyBytes: number;
  readonly producer: WebhookProducer;
  readonly intake: Intake;
}

/** One endpoint: an authentic request becomes one durable JobCall. A refused one never reaches the store. */
export function webhookRoute({
  endpoint,
  maxBodyBytes,
  producer,
  intake,
}: WebhookRouteOptions): RouteHandler {
  return async (request) => {
    const body = await request.readBody(maxBodyBytes);
    if (!isAuthentic(request, body, endpoint.auth)) throw new GatewayError("unauthorized", "unauthorized");

    const outcome = await intake.accept(producer.jobCall(endpoint, body));
    if (outcome.kind === "queue_full") {
      throw new GatewayError("queue_full", "The queue is full: send this again later.", {
        headers: { "retry-after": "5" },
      });
    }
    return jsonResponse(202, { status: "accepted", job_id: endpoint.jobId, call_id: outcome.callId });
  };
}
