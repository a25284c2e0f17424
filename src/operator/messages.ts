import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { GatewayEvent, WhatHappened } from "../core/events.ts";
import type { PaymentRecord, PaymentState } from "../core/payment.ts";
import type { RunnerReport } from "../delivery/subscription.ts";
import {
  type DeadLetter as DeadLetterMessage,
  DeadLetterSchema,
  type Event,
  Event_AcceptedSchema,
  Event_AckedSchema,
  Event_DeadLetteredSchema,
  Event_DeliveredSchema,
  Event_DroppedSchema,
  Event_PaymentDecidedSchema,
  Event_ProgressedSchema,
  Event_RetriedSchema,
  EventSchema,
  type GetTotalsResponse,
  GetTotalsResponseSchema,
  type Payment,
  PaymentSchema,
  type PaymentState as PaymentStateMessage,
  type Rate,
  RateSchema,
  type Revenue as RevenueMessage,
  RevenueSchema,
  type Runner,
  RunnerSchema,
} from "../gen/jobgate/v1/operator_pb.ts";
import type { RateReport } from "../pricing/rates/rate-board.ts";
import type { DeadLetter } from "../store/contract/dead-letter-box.ts";
import { isBalanced } from "../store/rules/journal-balance.ts";
import type { Revenue, StoreTotals } from "../store/store.ts";
import { PAYMENT_STATES } from "./presentation.ts";

/** Undefined for a state that this version does not know, and for the unspecified one. */
export function fromPaymentState(message: PaymentStateMessage): PaymentState | undefined {
  return (Object.keys(PAYMENT_STATES) as PaymentState[]).find((state) => PAYMENT_STATES[state] === message);
}

export function toTotals({ payments, calls, paidCalls, oldestReadyAt }: StoreTotals): GetTotalsResponse {
  return create(GetTotalsResponseSchema, {
    payments: bigints(payments),
    calls: bigints(calls),
    paidCalls: bigints(paidCalls),
    balanced: isBalanced({ payments, paidCalls }),
    ...(oldestReadyAt === undefined ? {} : { oldestReadyAt: timestampFromMs(oldestReadyAt) }),
  });
}

function bigints<Name extends string>(counts: Readonly<Record<Name, number>>): Record<Name, bigint> {
  const entries = Object.entries<number>(counts).map(([name, count]) => [name, BigInt(count)]);
  return Object.fromEntries(entries) as Record<Name, bigint>;
}

export function toPayment(record: PaymentRecord): Payment {
  return create(PaymentSchema, {
    callId: BigInt(record.callId),
    state: PAYMENT_STATES[record.state],
    reason: record.reason ?? "",
    serviceId: record.serviceId,
    jobIndex: record.jobIndex,
    ...record.key,
    symbol: record.symbol,
    amount: record.amount,
    payTo: record.payTo,
    validBefore: timestampFromMs(record.validBefore * 1_000),
    transaction: transactionOf(record.settlement),
    createdAt: timestampFromMs(record.createdAt),
    updatedAt: timestampFromMs(record.updatedAt),
  });
}

function transactionOf(settlement: string | undefined): string {
  if (settlement === undefined) return "";
  const { transaction } = JSON.parse(settlement) as { transaction?: unknown };
  return typeof transaction === "string" ? transaction : "";
}

export function toDeadLetter(letter: DeadLetter): DeadLetterMessage {
  const { origin, jobId, serviceId, attempts, reason } = letter;
  return create(DeadLetterSchema, {
    callId: BigInt(letter.callId),
    origin,
    jobId,
    serviceId,
    attempts,
    reason,
    enqueuedAt: timestampFromMs(letter.enqueuedAt),
    deadAt: timestampFromMs(letter.deadAt),
  });
}

export function toRate({ network, asset, symbol, source, rate, usable, problem = "" }: RateReport): Rate {
  const { ratePerNativeUnit = "", asOf } = rate ?? {};
  return create(RateSchema, {
    network,
    asset,
    symbol,
    source,
    rate: ratePerNativeUnit,
    usable,
    problem,
    ...(asOf === undefined ? {} : { asOf: timestampFromMs(asOf) }),
  });
}

export function toRevenue({ from, network, asset, symbol, amount, payments }: Revenue): RevenueMessage {
  return create(RevenueSchema, {
    from: timestampFromMs(from),
    network,
    asset,
    symbol,
    amount: String(amount),
    payments: BigInt(payments),
  });
}

export function toRunner({ connectedSince, jobIds, ...runner }: RunnerReport): Runner {
  return create(RunnerSchema, {
    ...runner,
    jobIds: [...jobIds],
    connectedSince: timestampFromMs(connectedSince),
  });
}

export function toEvent({ at, callId, what }: GatewayEvent): Event {
  return create(EventSchema, {
    at: timestampFromMs(at),
    callId: BigInt(callId),
    what: toWhat(what),
  });
}

function toWhat(what: WhatHappened): Event["what"] {
  switch (what.kind) {
    case "accepted":
      return { case: what.kind, value: create(Event_AcceptedSchema, what) };
    case "delivered": {
      const leaseExpiresAt = timestampFromMs(what.leaseExpiresAt);
      return { case: what.kind, value: create(Event_DeliveredSchema, { ...what, leaseExpiresAt }) };
    }
    case "progressed":
      return { case: what.kind, value: create(Event_ProgressedSchema, what) };
    case "acked":
      return {
        case: what.kind,
        value: create(Event_AckedSchema, { resultBytes: BigInt(what.resultBytes) }),
      };
    case "retried":
      return { case: what.kind, value: create(Event_RetriedSchema, what) };
    case "deadLettered":
      return { case: what.kind, value: create(Event_DeadLetteredSchema, what) };
    case "dropped":
      return { case: what.kind, value: create(Event_DroppedSchema) };
    case "paymentDecided": {
      const state = PAYMENT_STATES[what.state];
      return { case: what.kind, value: create(Event_PaymentDecidedSchema, { ...what, state }) };
    }
  }
}
