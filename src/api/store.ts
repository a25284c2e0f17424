/** `jobgate/store`: the durable queue between the gateways and the runners. */

export type { StoreConfig } from "../config/config.ts";
export { type ErrorCode, GatewayError } from "../core/errors.ts";
export type { JobCall, JobKey } from "../core/job-call.ts";
export type { PaymentIntent, PaymentKey, PaymentState } from "../core/payment.ts";
export { openStore } from "../open-store.ts";
export type { Store, StoreStatus, StoreTotals } from "../store/store.ts";
