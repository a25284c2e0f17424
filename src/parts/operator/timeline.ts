import type { GatewayEvent, WhatHappened } from "../../core/events.ts";
import { closingText, type PaymentRecord } from "../../core/payment.ts";
import type { CallDetails } from "../../store/contract/operator-lists.ts";
import type { EndedDelivery } from "../../store/rules/call-steps.ts";

/** Returns the events of a JobCall and its payment, oldest first, in the words of the tail. */
export function timelineOf(call: CallDetails, payment: PaymentRecord | undefined): GatewayEvent[] {
  const { callId, state, steps, finishedAt } = call;
  const events: GatewayEvent[] = [];
  const add = (at: number, what: WhatHappened) => void events.push({ at, callId, what });

  if (payment !== undefined) addPayment(payment, add);
  const { origin, jobId, serviceId } = call;
  // A webhook's JobCall is only held by earlier JobCalls of its key.
  if (state !== "held" || origin === "webhook") {
    add(call.enqueuedAt, { kind: "accepted", origin, jobId, serviceId });
  }
  const isDead = state === "dead" || state === "dropped";
  for (const [index, step] of steps.entries()) {
    if (step.kind === "revival") {
      add(step.deadAt, { kind: "deadLettered", reason: deathReason(step.reason, steps[index - 1]) });
      add(step.at, { kind: "retried", reason: "operator" });
      continue;
    }
    const { from, attempt, subscriber } = step;
    add(from, { kind: "delivered", jobId: call.jobId, attempt, subscriber });
    const next = steps[index + 1];
    const wasLast = next === undefined ? isDead : next.kind === "revival";
    if (!wasLast) add(step.to, { kind: "retried", reason: step.reason });
  }
  if (call.claimedAt !== undefined) {
    const { jobId, attempts: attempt, subscriber = "", dueAt } = call;
    const lease = dueAt === undefined ? {} : { leaseExpiresAt: dueAt };
    add(call.claimedAt, { kind: "delivered", jobId, attempt, subscriber, ...lease });
  }
  if (finishedAt === undefined) return events;
  if (state === "done" || state === "failed")
    add(finishedAt, { kind: "acked", resultBytes: call.resultBytes ?? 0, status: call.status });
  if (isDead) add(finishedAt, { kind: "deadLettered", reason: deathReason(call.reason ?? "", steps.at(-1)) });
  if (state === "dropped") add(finishedAt, { kind: "dropped" });
  return events;
}

function addPayment(payment: PaymentRecord, add: (at: number, what: WhatHappened) => void): void {
  const { key, symbol, amount, ceiling = amount, state, closed, reason = "" } = payment;
  const { network, asset, payer } = key;
  const paid = { network, asset, symbol, amount, payer };
  add(payment.createdAt, { kind: "paymentBegun", ...paid, amount: ceiling });
  if (state === "intent" || state === "authorized") return;
  const why = closed === undefined ? [reason] : [closingText(closed), reason];
  add(payment.updatedAt, {
    kind: "paymentDecided",
    state,
    ...paid,
    reason: why.filter((text) => text !== "").join("; "),
  });
}

/** Adds how the last delivery ended, if the reason of the dead letter only gives the number of attempts. */
function deathReason(reason: string, last: EndedDelivery | { readonly kind: "revival" } | undefined): string {
  if (last?.kind !== "delivery" || last.reason === "") return reason;
  return reason.includes(last.reason.slice(0, 50)) ? reason : `${reason}: ${last.reason}`;
}
