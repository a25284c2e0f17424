/** @import { Event } from "./api.js" */
import { countText } from "./format.js";
import { amountText } from "./tokens.js";

/**
 * What an event says of its JobCall.
 * @param {Event} event
 * @returns {{ stage: string, state: string, detail: string, percent: number | undefined, job?: string }}
 */
export function describeEvent(event) {
  const { accepted, delivered, progressed, acked, retried, dead_lettered, dropped, payment_decided } = event;
  const told = { detail: "", percent: undefined };
  if (accepted) {
    const job =
      accepted.origin === "x402"
        ? `paid job ${accepted.service_id}/${accepted.job_id}`
        : `webhook job ${accepted.job_id}`;
    return { ...told, stage: "waiting", state: "waits", job };
  }
  if (delivered) {
    const again = delivered.attempt > 1 ? `, attempt ${delivered.attempt}` : "";
    return { ...told, stage: "running", state: "running", detail: `${delivered.subscriber}${again}` };
  }
  if (progressed) {
    const { percent, text } = progressed;
    return { stage: "running", state: "running", detail: `${percent} % ${text}`, percent };
  }
  if (acked) {
    const bytes = Number(acked.result_bytes);
    return {
      ...told,
      stage: "done",
      state: "done",
      detail: bytes === 0 ? "" : `result of ${countText(bytes)} bytes`,
    };
  }
  if (retried) return { ...told, stage: "waiting", state: "again", detail: retried.reason };
  if (dead_lettered) return { ...told, stage: "dead", state: "dead", detail: dead_lettered.reason };
  if (dropped) return { ...told, stage: "dead", state: "dropped" };
  if (payment_decided) {
    const { state, reason } = payment_decided;
    if (state === "PAYMENT_STATE_SETTLED") return { ...told, stage: "waiting", state: "paid" };
    if (state === "PAYMENT_STATE_FAILED")
      return { ...told, stage: "dead", state: "not paid", detail: reason };
    return { ...told, stage: "unsure", state: "unresolved", detail: reason };
  }
  return { ...told, stage: "waiting", state: "?" };
}

/**
 * What is worth interrupting somebody for.
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
