/** Views of the operator's page that parts of this build bring, a line for each. */
export { VIEW as bodies } from "../parts/bodies/view/bodies.tsx";
export { VIEW as books } from "../parts/books/view/money.tsx";
export { VIEW as callbacks } from "../parts/callbacks/view/callbacks.tsx";
export { VIEW as channels } from "../parts/channels/view/channels.tsx";
export { VIEW as flow } from "../parts/flow/view/held-keys.tsx";
export { VIEW as pausing } from "../parts/pausing/view/pausing.tsx";
export { VIEW as paymentAlerts } from "../parts/payment-alerts/view/alerts.tsx";
export { VIEW as refunds } from "../parts/refunds/view/refunds.tsx";
export { VIEW as resend } from "../parts/resend/view/resend.tsx";
export { VIEW as search } from "../parts/search/view/search.tsx";
