import { systemClock } from "./core/clock.ts";
import type { EventHub, WhatHappened } from "./core/events.ts";
import type { JobCall } from "./core/job-call.ts";
import { closingText, type PaymentIntent, type PaymentRecord } from "./core/payment.ts";
import { decodeJobId } from "./delivery/job-call-codec.ts";
import type { AcceptOnceOutcome } from "./store/contract/intake.ts";
import type { Refund } from "./store/contract/refund-ledger.ts";
import type { BuriedCall, DecidedCharge, EndedLease } from "./store/contract/work-queue.ts";
import type { Committed } from "./store/operations.ts";
import { STREAM_ENDED } from "./store/rules/call-steps.ts";
import { refundChange } from "./store/rules/refunds.ts";

/** Reason of a charge that no ack decided. */
const AUTHORIZATION_ENDS = "the authorization is about to end";

/** Longest reason in an event: runners write them. */
const MAX_REASON_LENGTH = 500;

/** Makes the listener that turns each change committed in the store into events. */
export function emitEvents(events: EventHub): (committed: Committed) => void {
  function emit(callId: number, what: WhatHappened, at = systemClock()): void {
    events.emit({ at, callId, what });
  }

  function accepted({ origin, jobId, serviceId }: JobCall, outcome: AcceptOnceOutcome): void {
    if (outcome.kind === "accepted") emit(outcome.callId, { kind: "accepted", origin, jobId, serviceId });
  }

  function decided(
    { callId, key, symbol, amount }: PaymentRecord,
    state: "settled" | "failed" | "unresolved",
    reason: string,
  ): void {
    const { network, asset, payer } = key;
    const token = { network, asset, symbol };
    emit(callId, { kind: "paymentDecided", state, ...token, amount, payer, reason: short(reason) });
  }

  function settled(record: PaymentRecord, reason: string): void {
    decided(record, "settled", reason);
    if (record.ceiling === undefined) queued(record.callId, record);
  }

  function queued(callId: number, { jobIndex, serviceId }: PaymentIntent): void {
    emit(callId, { kind: "accepted", origin: "x402", jobId: BigInt(jobIndex), serviceId });
  }

  function refunding(refund: Refund | undefined): void {
    if (refund !== undefined) emit(refund.callId, refundChange(refund), refund.updatedAt);
  }

  function buried(calls: readonly BuriedCall[]): void {
    for (const { callId, reason, deadAt, released } of calls) {
      emit(callId, { kind: "deadLettered", reason: short(reason) }, deadAt);
      charged(callId, released, reason);
    }
  }

  function charged(callId: number, charge: DecidedCharge | undefined, reason = ""): void {
    if (charge !== undefined) emit(callId, { kind: "paymentDecided", ...charge, reason: short(reason) });
  }

  function retried(callId: number, reason: string): void {
    emit(callId, { kind: "retried", reason: short(reason) });
  }

  function ended(callId: number, { outcome, buried: dead }: EndedLease, reason: string): void {
    if (dead !== undefined) buried([dead]);
    else if (outcome === "done") retried(callId, reason);
  }

  return ({ operation, input, outcome }) => {
    switch (operation) {
      case "accept":
      case "acceptOnce":
        return accepted(input[0], outcome);

      case "beginPayment":
        // The JobCall of any other payment is queued once that is settled.
        return outcome.kind === "begun" && input[0].ceiling !== undefined
          ? queued(outcome.callId, input[0])
          : undefined;
      case "settlePayment":
        return outcome.kind === "settled" && outcome.changed ? settled(outcome.record, "") : undefined;
      case "failPayment":
        return outcome.kind === "failed" ? decided(outcome.record, "failed", input[2]) : undefined;
      case "closePayment": {
        if (outcome.kind !== "closed") return;
        const { record } = outcome;
        const reason = closingText(input[1]);
        return record.state === "settled" ? settled(record, reason) : decided(record, "failed", reason);
      }
      case "leavePaymentUnresolved":
        return outcome === undefined ? undefined : decided(outcome, "unresolved", input[1]);

      case "claim": {
        buried(outcome.buried);
        if (!events.watches("delivered")) return;
        const [{ subscriber }] = input;
        for (const { callId, attempt, leaseExpiresAt, encoded } of outcome.calls) {
          emit(callId, {
            kind: "delivered",
            jobId: decodeJobId(encoded),
            attempt,
            leaseExpiresAt,
            subscriber,
          });
        }
        return;
      }
      case "expireLeases":
        return buried(outcome);
      case "endAuthorization":
        if (outcome.kind === "buried") buried([outcome.buried]);
        else if (outcome.kind === "charged") charged(input[0], outcome.charge, AUTHORIZATION_ENDS);
        return;
      case "ack": {
        const [{ callId }, result] = input;
        if (outcome.outcome !== "done") return;
        emit(callId, { kind: "acked", resultBytes: result?.body.byteLength ?? 0 });
        return charged(callId, outcome.charge);
      }
      case "retry":
        return ended(input[0].callId, outcome, input[1].reason);
      case "release":
        return ended(input[0].callId, outcome, STREAM_ENDED);
      case "fail":
        return ended(input[0].callId, outcome, "");
      case "extend": {
        const [{ callId }, , progress] = input;
        if (outcome.outcome === "done" && progress !== undefined)
          emit(callId, { kind: "progressed", ...progress });
        return;
      }

      case "retryDeadLetter":
        return outcome === "retried" ? retried(input[0], "operator") : undefined;
      case "dropDeadLetter":
        return outcome ? emit(input[0], { kind: "dropped" }) : undefined;

      case "sendRefund":
      case "endRefund":
        return refunding(outcome);
      case "decideRefund":
        return outcome.kind === "decided" ? refunding(outcome.refund) : undefined;

      // Nothing that anyone watches.
      case "contradictPayment":
      case "endCallback":
      case "endWatches":
      case "finishTransactions":
      case "holdRefund":
      case "holdSettler":
      case "keepSecret":
      case "useCallerNonce":
      case "probe":
      case "prune":
      case "queueTransaction":
      case "retryCallback":
      case "saveOffers":
      case "saveQuote":
      case "shrink":
      case "signTransactions":
      case "useCallbackEndpoints":
        return;
    }
  };
}

function short(reason: string): string {
  return reason.slice(0, MAX_REASON_LENGTH);
}
