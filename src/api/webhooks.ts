/** `jobgate/webhooks`: the HTTP gateway that turns webhooks into jobs. */

export type {
  WebhookAuth,
  WebhookChallenge,
  WebhookDedupe,
  WebhookEndpoint,
  WebhookSecret,
  WebhooksConfig,
} from "../config/config.ts";
export type { BackgroundService } from "../core/background-service.ts";
export type { Clock } from "../core/clock.ts";
export { type ErrorCode, GatewayError } from "../core/errors.ts";
export type { JobCall } from "../core/job-call.ts";
export { WebhookGateway } from "../webhooks/gateway.ts";
export { WebhookProducer } from "../webhooks/producer.ts";
