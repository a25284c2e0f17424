/** `jobgate/x402`: the HTTP gateway that sells jobs over x402. */

export type {
  AcceptedToken,
  JobPolicy,
  JobRestriction,
  RateSource,
  X402Config,
  X402Limits,
} from "../config/config.ts";
export type { BackgroundService } from "../core/background-service.ts";
export type { Clock } from "../core/clock.ts";
export { type ErrorCode, GatewayError } from "../core/errors.ts";
export { type JobCall, type JobKey, jobKeyText } from "../core/job-call.ts";
export { X402Gateway } from "../x402/gateway.ts";
export type { PriceSource } from "../x402/prices/price-source.ts";
export { X402Producer } from "../x402/producer.ts";
