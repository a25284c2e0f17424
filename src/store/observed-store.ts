import { type Clock, systemClock } from "../core/clock.ts";
import type { EventHub, EventKind, WhatHappened } from "../core/events.ts";
import type { JobCall } from "../core/job-call.ts";
import type { PaymentKey } from "../core/payment.ts";
import { decodeJobCall } from "../delivery/job-call-codec.ts";
import { type BegunPayment, createBegunPayments } from "./begun-payments.ts";
import { createBurialWatch } from "./burial-watch.ts";
import type { AcceptOnceOutcome } from "./contract/intake.ts";
import type { ClaimedCall, LeaseOutcome } from "./contract/work-queue.ts";
import type { Store } from "./store.ts";

/** Of a reason: runners write them. */
const MAX_REASON_LENGTH = 500;

/**
 * The same store, that tells of what becomes durable in it. What is done and how long it takes stays the same:
 * events are made beside the answer, and only while someone watches.
 */
export function observeStore(store: Store, events: EventHub, clock: Clock = systemClock): Store {
  const burials = createBurialWatch({ store, clock, onBurial: deadLettered });
  const payments = createBegunPayments(store);

  function tell(callId: number, what: WhatHappened, at = clock()): void {
    events.emit({ at, callId, what });
  }

  function tellAccepted({ origin, jobId, serviceId }: JobCall, outcome: AcceptOnceOutcome): void {
    if (outcome.kind === "accepted") tell(outcome.callId, { kind: "accepted", origin, jobId, serviceId });
  }

  function deadLettered(callId: number, reason: string, at: number): void {
    tell(callId, { kind: "deadLettered", reason: short(reason) }, at);
  }

  /**
   * Gives what the store gives; `look` sees it too, when one of these kinds is watched. Whatever fails in looking is no
   * business of the caller.
   */
  function watched<T>(
    result: Promise<T>,
    kinds: readonly EventKind[],
    look: (value: T) => unknown,
  ): Promise<T> {
    if (events.watches(...kinds)) result.then(look).catch(() => undefined);
    return result;
  }

  /** The same for what decides a payment, where it `hasChanged` that: others may have decided it before. */
  function watchedPayment<T>(
    decided: Promise<T>,
    key: PaymentKey,
    hasChanged: (value: T) => boolean,
    look: (payment: BegunPayment) => void,
  ): Promise<T> {
    return watched(decided, ["paymentDecided", "accepted"], async (value) => {
      const payment = hasChanged(value) ? await payments.find(key) : undefined;
      if (payment !== undefined) look(payment);
    });
  }

  function tellDecided(
    { callId, key, symbol, amount }: BegunPayment,
    state: "settled" | "failed" | "unresolved",
    reason: string,
  ): void {
    if (state !== "unresolved") payments.decided(key);
    const { network, asset, payer } = key;
    const token = { network, asset, symbol };
    tell(callId, { kind: "paymentDecided", state, ...token, amount, payer, reason: short(reason) });
  }

  function tellDelivered(call: ClaimedCall, subscriber: string): void {
    const { callId, attempt, leaseExpiresAt, encoded } = call;
    const { jobId } = decodeJobCall(encoded);
    tell(callId, { kind: "delivered", jobId, attempt, leaseExpiresAt, subscriber });
  }

  return {
    status: () => store.status(),
    totals: () => store.totals(),
    revenue: (period) => store.revenue(period),
    close: () => store.close(),

    accept: (call) => watched(store.accept(call), ["accepted"], (outcome) => tellAccepted(call, outcome)),
    acceptOnce: (call, delivery) =>
      watched(store.acceptOnce(call, delivery), ["accepted"], (outcome) => tellAccepted(call, outcome)),

    isShared: store.isShared,
    findPayment: (key) => store.findPayment(key),
    findPaymentByFingerprint: (fingerprint) => store.findPaymentByFingerprint(fingerprint),
    isCallerNonceUsed: (nonce) => store.isCallerNonceUsed(nonce),
    beginPayment: (intent, call) =>
      watched(store.beginPayment(intent, call), ["paymentDecided", "accepted"], (outcome) => {
        if (outcome.kind === "begun") payments.begun({ ...intent, callId: outcome.callId });
      }),
    settlePayment: (key, settlement) =>
      watchedPayment(
        store.settlePayment(key, settlement),
        key,
        (outcome) => outcome.kind === "settled" && outcome.changed,
        (payment) => {
          const { callId, serviceId, jobIndex } = payment;
          tellDecided(payment, "settled", "");
          tell(callId, { kind: "accepted", origin: "x402", jobId: BigInt(jobIndex), serviceId });
        },
      ),
    failPayment: (key, settlement, reason) =>
      watchedPayment(
        store.failPayment(key, settlement, reason),
        key,
        (outcome) => outcome.kind === "failed",
        (payment) => tellDecided(payment, "failed", reason),
      ),
    leavePaymentUnresolved: (key, reason) =>
      watchedPayment(
        store.leavePaymentUnresolved(key, reason),
        key,
        (changed) => changed,
        (payment) => tellDecided(payment, "unresolved", reason),
      ),
    listPayments: (filter) => store.listPayments(filter),
    listUndecided: (filter) => store.listUndecided(filter),

    claim: (request) =>
      watched(store.claim(request), ["delivered", "deadLettered", "retried"], (calls) => {
        if (events.watches("delivered")) for (const call of calls) tellDelivered(call, request.subscriber);
        burials.claimed(calls, request.maxAttempts);
      }),
    ack: (lease, result) =>
      watched(store.ack(lease, result), ["acked", "deadLettered"], (outcome) => {
        if (outcome !== "done") return;
        burials.finished(lease.callId);
        tell(lease.callId, { kind: "acked", resultBytes: result?.body.byteLength ?? 0 });
      }),
    retry: (lease, retry) =>
      watched(store.retry(lease, retry), ["retried", "deadLettered"], (outcome) => {
        if (outcome === "done") burials.returned(lease.callId, () => tellRetried(lease.callId, retry.reason));
      }),
    fail: (lease, reason) =>
      watched(store.fail(lease, reason), ["deadLettered"], (outcome) => {
        if (outcome !== "done") return;
        burials.finished(lease.callId);
        deadLettered(lease.callId, reason, clock());
      }),
    extend: (lease, leaseMs, progress) =>
      watched(
        store.extend(lease, leaseMs, progress),
        ["progressed", "deadLettered"],
        ({ outcome, leaseExpiresAt }) => {
          if (outcome !== "done") return;
          burials.extended(lease.callId, leaseExpiresAt);
          if (progress !== undefined) tell(lease.callId, { kind: "progressed", ...progress });
        },
      ),
    release: (lease, options) =>
      watched(store.release(lease, options), ["retried", "deadLettered"], (outcome: LeaseOutcome) => {
        if (outcome === "done")
          burials.returned(lease.callId, () => tellRetried(lease.callId, "stream ended"));
      }),
    onWork: (listener) => store.onWork(listener),
    nextDue: () => store.nextDue(),
    ...(store.sharedLeases === undefined ? {} : { sharedLeases: store.sharedLeases }),

    listDeadLetters: (filter) => store.listDeadLetters(filter),
    findDeadLetter: (callId) => store.findDeadLetter(callId),
    retryDeadLetter: (callId) =>
      watched(store.retryDeadLetter(callId), ["retried"], (took) => {
        if (took) tellRetried(callId, "operator");
      }),
    dropDeadLetter: (callId) =>
      watched(store.dropDeadLetter(callId), ["dropped"], (took) => {
        if (took) tell(callId, { kind: "dropped" });
      }),

    findCall: (callId) => store.findCall(callId),
    findResult: (callId) => store.findResult(callId),

    saveOffers: (offers) => store.saveOffers(offers),
    findOffers: (job) => store.findOffers(job),
    saveQuote: (quote) => store.saveQuote(quote),
    findQuote: (digest) => store.findQuote(digest),
  };

  function tellRetried(callId: number, reason: string): void {
    tell(callId, { kind: "retried", reason: short(reason) });
  }
}

function short(reason: string): string {
  return reason.slice(0, MAX_REASON_LENGTH);
}
