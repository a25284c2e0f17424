/** `jobgate/x402`: the HTTP gateway that sells jobs over x402. */

import { loadMethods, loadX402Parts } from "../load-parts.ts";
import { X402Gateway as CoreX402Gateway } from "../x402/gateway.ts";

export type {
  AcceptedToken,
  JobPolicy,
  JobRestriction,
  X402Config,
  X402Limits,
} from "../config/config.ts";
export type { BackgroundService } from "../core/background-service.ts";
export type { Clock } from "../core/clock.ts";
export { type ErrorCode, GatewayError } from "../core/errors.ts";
export { type JobCall, type JobKey, jobKeyText } from "../core/job-call.ts";
export type { PriceSource } from "../x402/prices/price-source.ts";
export { X402Producer } from "../x402/producer.ts";

const methods = await loadMethods();

/** HTTP service that sells runs of jobs for x402 payments, with what every part of this build adds to it. */
export class X402Gateway extends CoreX402Gateway {
  constructor(...[options, periods]: ConstructorParameters<typeof CoreX402Gateway>) {
    super({ methods, parts: loadX402Parts, ...options }, periods);
  }
}
