// The store modules of the parts that keep rows. The threads of the store also load these modules, so they import
// nothing but the store. To delete a part, delete its line here, its line in parts.ts and its folder.
export { TASKS as a2a } from "./parts/a2a/store/module.ts";
export { RESERVED_JOBS as apis } from "./parts/apis/store/module.ts";
export { BODIES as bodies } from "./parts/bodies/store/module.ts";
export { BOOKS as books } from "./parts/books/store/module.ts";
export { CALLBACKS as callbacks } from "./parts/callbacks/store/module.ts";
export { CHANNELS as channels } from "./parts/channels/store/module.ts";
export { FLOW as flow } from "./parts/flow/store/module.ts";
export { PAUSES as pausing } from "./parts/pausing/store/module.ts";
export { PAYMENT_ALERTS as paymentAlerts } from "./parts/payment-alerts/store/module.ts";
export { QUOTES as pricingEngine } from "./parts/pricing-engine/store/module.ts";
export { REFUNDS as refunds } from "./parts/refunds/store/module.ts";
export { ACCEPTED_CALLS as resend } from "./parts/resend/store/module.ts";
export { SEARCH as search } from "./parts/search/store/module.ts";
export { TRANSACTIONS as transactions } from "./parts/transactions/store/module.ts";
