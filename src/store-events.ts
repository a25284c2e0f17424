import { systemClock } from "./core/clock.ts";
import type { EventHub, WhatHappened } from "./core/events.ts";
import type { JobCall } from "./core/job-call.ts";
import { defined } from "./core/objects.ts";
import { closingText, type PaymentIntent, type PaymentRecord } from "./core/payment.ts";
import { decodeJobId } from "./delivery/job-call-codec.ts";
import type { AcceptOnceOutcome } from "./store/contract/intake.ts";
import type { DeadLetteredCall, DecidedCharge, EndedLease } from "./store/contract/work-queue.ts";
import type { Committed } from "./store/operations.ts";
import { STREAM_ENDED } from "./store/rules/call-steps.ts";

/** Reason for a charge that was not decided by an ack. */
const AUTHORIZATION_ENDS = "the authorization is about to end";

/** Longest reason in an event. Runners write the reasons. */
const MAX_REASON_LENGTH = 500;

/** A change as an event. The time is left out if the change happens now. */
interface Happened {
  readonly callId: number;
  readonly what: WhatHappened;
  /** Unix milliseconds. */
  readonly at?: number;
}

/** Makes the listener that turns each change committed in the store into events. */
export function emitEvents(events: EventHub): (committed: Committed) => void {
  return (committed) => {
    for (const { callId, what, at = systemClock() } of eventsOf(committed, events))
      events.emit({ at, callId, what });
  };
}

/** Returns the events of a committed change, in order. */
function eventsOf(committed: Committed, events: Pick<EventHub, "watches">): readonly Happened[] {
  if (committed.operation === "step") return committed.event === undefined ? [] : [committed.event];
  const { operation, input, outcome } = committed;
  switch (operation) {
    case "accept":
    case "acceptOnce":
      return accepted(input[0], outcome);

    case "beginPayment":
      return outcome.kind === "begun" ? begun(outcome.callId, input[0]) : [];
    case "settlePayment":
      return outcome.kind === "settled" && outcome.changed ? settled(outcome.record, "") : [];
    case "failPayment":
      return outcome.kind === "failed" ? [decided(outcome.record, "failed", input[2])] : [];
    case "closePayment": {
      if (outcome.kind !== "closed") return [];
      const { record } = outcome;
      const reason = closingText(input[1]);
      return record.state === "settled" ? settled(record, reason) : [decided(record, "failed", reason)];
    }
    case "leavePaymentUnresolved":
      return outcome === undefined ? [] : [decided(outcome, "unresolved", input[1])];

    case "claim": {
      const deadLetters = outcome.deadLettered.flatMap(deadLettered);
      // JobCalls are decoded only if an event needs it, because decoding takes time.
      if (!events.watches("delivered")) return deadLetters;
      const [{ subscriber }] = input;
      const delivered = outcome.calls.map(({ callId, attempt, leaseExpiresAt, encoded }): Happened => {
        const jobId = decodeJobId(encoded);
        return { callId, what: { kind: "delivered", jobId, attempt, leaseExpiresAt, subscriber } };
      });
      return [...deadLetters, ...delivered];
    }
    case "expireLeases":
      return outcome.flatMap(deadLettered);
    case "endAuthorization":
      if (outcome.kind === "dead_lettered") return deadLettered(outcome.deadLettered);
      return outcome.kind === "charged" ? charged(input[0], outcome.charge, AUTHORIZATION_ENDS) : [];
    case "ack": {
      const [{ callId }, result] = input;
      if (outcome.outcome !== "done") return [];
      const { body, storedBytes = body?.byteLength ?? 0, status } = result ?? {};
      const acked: Happened = { callId, what: { kind: "acked", resultBytes: storedBytes, status } };
      return [acked, ...charged(callId, outcome.charge)];
    }
    case "retry":
      return ended(input[0].callId, outcome, input[1].reason);
    case "release":
      return ended(input[0].callId, outcome, input[1].reason ?? STREAM_ENDED);
    case "fail":
      return ended(input[0].callId, outcome, "");
    case "extend": {
      const [{ callId }, , progress] = input;
      const isReported = outcome.outcome === "done" && progress !== undefined;
      return isReported ? [{ callId, what: { kind: "progressed", ...progress } }] : [];
    }

    case "retryDeadLetter":
      return outcome === "retried" ? [retried(input[0], "operator")] : [];
    case "dropDeadLetter":
      return outcome ? [{ callId: input[0], what: { kind: "dropped" } }] : [];

    // These changes have no events.
    case "appendResult":
    case "confirmPayment":
    case "contradictPayment":
    case "endWatches":
    case "finalizePayment":
    case "forgetResult":
    case "holdLock":
    case "probe":
    case "prune":
    case "shrink":
    case "withhold":
      return [];
  }
}

function accepted({ origin, jobId, serviceId }: JobCall, outcome: AcceptOnceOutcome): Happened[] {
  if (outcome.kind !== "accepted") return [];
  return [{ callId: outcome.callId, what: { kind: "accepted", origin, jobId, serviceId } }];
}

/** A payment that is charged before its job runs makes no event until it is settled. */
function begun(callId: number, intent: PaymentIntent): Happened[] {
  const { key, symbol, amount } = intent;
  if (intent.settlement !== undefined)
    return [decided({ callId, key, symbol, amount }, "settled", ""), queued(callId, intent)];
  return intent.charge === "before" ? [] : [queued(callId, intent)];
}

type Decided = Pick<PaymentRecord, "callId" | "ceiling" | keyof PaymentIntent>;

function decided(
  { callId, key, symbol, amount }: Pick<Decided, "callId" | "key" | "symbol" | "amount">,
  state: "settled" | "failed" | "unresolved",
  reason: string,
): Happened {
  const { network, asset, payer } = key;
  const token = { network, asset, symbol };
  return { callId, what: { kind: "paymentDecided", state, ...token, amount, payer, reason: short(reason) } };
}

function settled(record: Decided, reason: string): Happened[] {
  const payment = decided(record, "settled", reason);
  return record.ceiling === undefined ? [payment, queued(record.callId, record)] : [payment];
}

function queued(callId: number, { jobIndex, serviceId }: PaymentIntent): Happened {
  return { callId, what: { kind: "accepted", origin: "x402", jobId: BigInt(jobIndex), serviceId } };
}

function deadLettered({ callId, reason, deadAt, released, holdsKeyOf }: DeadLetteredCall): Happened[] {
  const what = { kind: "deadLettered", reason: short(reason), ...defined({ holdsKeyOf }) } as const;
  const dead: Happened = { callId, what, at: deadAt };
  return [dead, ...charged(callId, released, reason)];
}

function charged(callId: number, charge: DecidedCharge | undefined, reason = ""): Happened[] {
  if (charge === undefined) return [];
  return [{ callId, what: { kind: "paymentDecided", ...charge, reason: short(reason) } }];
}

function retried(callId: number, reason: string): Happened {
  return { callId, what: { kind: "retried", reason: short(reason) } };
}

function ended(callId: number, { outcome, deadLettered: dead }: EndedLease, reason: string): Happened[] {
  if (dead !== undefined) return deadLettered(dead);
  return outcome === "done" ? [retried(callId, reason)] : [];
}

function short(reason: string): string {
  return reason.slice(0, MAX_REASON_LENGTH);
}
