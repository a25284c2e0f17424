/** @import { Event } from "./api.js" */
import { countText } from "./format.js";
import { amountText } from "./tokens.js";

/**
 * Describes an event as a line of the flow.
 * @param {Event} event
 * @returns {{ stage: string, state: string, detail: string, percent: number | undefined, job?: string }}
 */
export function describeEvent(event) {
  const { accepted, delivered, progressed, acked, retried, dead_lettered, dropped, payment_decided } = event;
  const described = { detail: "", percent: undefined };
  if (accepted) {
    const job =
      accepted.origin === "x402"
        ? `paid job ${accepted.service_id}/${accepted.job_id}`
        : `webhook job ${accepted.job_id}`;
    return { ...described, stage: "waiting", state: "waits", job };
  }
  if (delivered) {
    const again = delivered.attempt > 1 ? `, attempt ${delivered.attempt}` : "";
    return { ...described, stage: "running", state: "running", detail: `${delivered.subscriber}${again}` };
  }
  if (progressed) {
    const { percent, text } = progressed;
    return { stage: "running", state: "running", detail: `${percent} % ${text}`, percent };
  }
  if (acked) {
    const bytes = Number(acked.result_bytes);
    return {
      ...described,
      stage: "done",
      state: "done",
      detail: bytes === 0 ? "" : `result of ${countText(bytes)} bytes`,
    };
  }
  if (retried) return { ...described, stage: "waiting", state: "again", detail: retried.reason };
  if (dead_lettered) return { ...described, stage: "dead", state: "dead", detail: dead_lettered.reason };
  if (dropped) return { ...described, stage: "dead", state: "dropped" };
  if (payment_decided) {
    const { state, reason } = payment_decided;
    if (state === "PAYMENT_STATE_SETTLED") return { ...described, stage: "waiting", state: "paid" };
    if (state === "PAYMENT_STATE_FAILED")
      return { ...described, stage: "dead", state: "not paid", detail: reason };
    return { ...described, stage: "unsure", state: "unresolved", detail: reason };
  }
  return { ...described, stage: "waiting", state: "?" };
}

/**
 * Text to announce for events that need attention.
 * @param {Event} event
 * @returns {string | undefined}
 */
export function announcementOf({ call_id, payment_decided, dead_lettered }) {
  if (dead_lettered) return `Call ${call_id} is a dead letter: ${dead_lettered.reason}.`;
  if (payment_decided === undefined) return undefined;
  const text = amountText(payment_decided, BigInt(payment_decided.amount));
  if (payment_decided.state === "PAYMENT_STATE_SETTLED") return `Payment of ${text} for call ${call_id}.`;
  if (payment_decided.state === "PAYMENT_STATE_UNRESOLVED") {
    return `The payment of ${text} for call ${call_id} needs a look.`;
  }
  return undefined;
}
