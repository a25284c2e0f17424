import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { amountText } from "../../core/amounts.ts";
import type { GatewayEvent, WhatHappened } from "../../core/events.ts";
import { type PaymentClosing, type PaymentRecord, transactionOf } from "../../core/payment.ts";
import type { RunnerReport } from "../../delivery/subscription.ts";
import { type EventSchema, PaymentVerdict } from "../../gen/jobgate/v1/operator_pb.ts";
import { CALL_STATES, type DecimalsOf, PAYMENT_STATES, statesInEvent } from "../../operator/messages.ts";
import type { Holdings } from "../../part.ts";
import type { DeadLetter, DeadLetterGroups } from "../../store/contract/dead-letter-box.ts";
import type { ListedCall } from "../../store/contract/operator-lists.ts";
import { isBalanced } from "../../store/rules/payments.ts";
import type { Revenue, StoreTotals } from "../../store/store.ts";
import type { RateReport } from "../../x402/prices/token-rates.ts";
import type { UntakenJob } from "./untaken-jobs.ts";

/** The API's number for each way to close a payment. */
const PAYMENT_VERDICTS = {
  paid: PaymentVerdict.PAID,
  not_paid: PaymentVerdict.NOT_PAID,
} as const satisfies Record<PaymentClosing["as"], PaymentVerdict>;

export function toTotals(totals: StoreTotals) {
  const { payments, deferred, calls, paidCalls, kept, uncharged, oldestReadyAt } = totals;
  const { authorized: running, ...used } = deferred;
  const authorized = Object.values(deferred).reduce((sum, n) => sum + n, 0);
  return {
    deferred: bigints({ authorized, running, ...used }),
    uncharged: BigInt(uncharged),
    kept: BigInt(kept),
    payments: bigints(payments),
    calls: bigints(calls),
    paidCalls: bigints(paidCalls),
    balanced: isBalanced(totals),
    ...(oldestReadyAt === undefined ? {} : { oldestReadyAt: timestampFromMs(oldestReadyAt) }),
  };
}

export function toHoldings({ pays, read }: Holdings) {
  return read().map(({ network, account, symbol, asset = "", amount, decimals, isShort, readAt }) => ({
    ...{ pays, network, account, symbol, asset, decimals, isShort },
    amount: String(amount),
    readAt: timestampFromMs(Math.floor(readAt)),
  }));
}

/** Makes counts the u64 values of a message. */
export function bigints<Name extends string>(counts: Readonly<Record<Name, number>>): Record<Name, bigint> {
  const entries = Object.entries<number>(counts).map(([name, count]) => [name, BigInt(count)]);
  return Object.fromEntries(entries) as Record<Name, bigint>;
}

export function toPayment(record: PaymentRecord, decimalsOf: DecimalsOf) {
  const { serviceId, jobIndex, symbol, amount, ceiling, payTo, reason = "", closed } = record;
  return {
    ...{ serviceId, jobIndex, symbol, amount, payTo, reason, ...record.key },
    amountText: amountText(amount, symbol, decimalsOf(record.key)),
    callId: BigInt(record.callId),
    state: PAYMENT_STATES[record.state],
    validBefore: timestampFromMs(record.validBefore * 1_000),
    transaction: transactionOf(record.settlement) ?? "",
    createdAt: timestampFromMs(record.createdAt),
    updatedAt: timestampFromMs(record.updatedAt),
    ...(closed === undefined ? {} : { closed: toClosing(closed) }),
    ...(ceiling === undefined
      ? {}
      : { ceiling, ceilingText: amountText(ceiling, symbol, decimalsOf(record.key)) }),
  };
}

function toClosing({ as, by, note, at }: NonNullable<PaymentRecord["closed"]>) {
  return { verdict: PAYMENT_VERDICTS[as], by, note, at: timestampFromMs(at) };
}

export function toCall(call: ListedCall, decimalsOf: DecimalsOf) {
  const { origin, jobId, serviceId, attempts, reason = "", subscriber = "", payment } = call;
  const { dueAt, finishedAt } = call;
  return {
    ...{ origin, jobId, serviceId, attempts, reason, subscriber },
    status: call.status ?? 0,
    callId: BigInt(call.callId),
    state: CALL_STATES[call.state],
    enqueuedAt: timestampFromMs(call.enqueuedAt),
    ...(dueAt === undefined ? {} : { dueAt: timestampFromMs(dueAt) }),
    ...(finishedAt === undefined ? {} : { finishedAt: timestampFromMs(finishedAt) }),
    ...(payment === undefined
      ? {}
      : {
          payer: payment.payer,
          network: payment.network,
          amountText: amountText(payment.amount, payment.symbol, decimalsOf(payment)),
          amountBaseUnits: payment.amount,
        }),
  };
}

export function toDeadLetterGroups({ groups, totalGroups, totalDeadLetters }: DeadLetterGroups) {
  return {
    groups: groups.map(({ count, oldestDeadAt, newestDeadAt, ...group }) => ({
      ...group,
      count: BigInt(count),
      oldestDeadAt: timestampFromMs(oldestDeadAt),
      newestDeadAt: timestampFromMs(newestDeadAt),
    })),
    totalGroups: BigInt(totalGroups),
    totalDeadLetters: BigInt(totalDeadLetters),
  };
}

/** Makes a listed call a dead letter. */
export function asDeadLetter({ reason = "", finishedAt: deadAt = 0, ...call }: ListedCall): DeadLetter {
  return { ...call, reason, deadAt };
}

export function toDeadLetter(letter: DeadLetter) {
  const { origin, jobId, serviceId, attempts, reason } = letter;
  return {
    ...{ origin, jobId, serviceId, attempts, reason },
    callId: BigInt(letter.callId),
    enqueuedAt: timestampFromMs(letter.enqueuedAt),
    deadAt: timestampFromMs(letter.deadAt),
  };
}

export function toRate({ network, asset, symbol, source, rate, usable, problem = "" }: RateReport) {
  const { ratePerNativeUnit = "", asOf } = rate ?? {};
  return {
    ...{ network, asset, symbol, source, usable, problem },
    rate: ratePerNativeUnit,
    ...(asOf === undefined ? {} : { asOf: timestampFromMs(asOf) }),
  };
}

export function toRevenue(
  { from, network, asset, symbol, amount, payments }: Revenue,
  decimalsOf: DecimalsOf,
) {
  return {
    ...{ network, asset, symbol },
    from: timestampFromMs(from),
    amount: String(amount),
    amountText: amountText(amount, symbol, decimalsOf({ network, asset })),
    payments: BigInt(payments),
  };
}

export function toRunner({ connectedSince, jobIds, reserves: _, ...runner }: RunnerReport) {
  return { ...runner, jobIds: [...jobIds], connectedSince: timestampFromMs(connectedSince) };
}

export function toUntakenJob({ count, oldestAt, ...job }: UntakenJob) {
  return { ...job, calls: BigInt(count), oldestAcceptedAt: timestampFromMs(oldestAt) };
}

type EventInit = MessageInitShape<typeof EventSchema>;

export function toEvent({ at, callId, what }: GatewayEvent, decimalsOf: DecimalsOf): EventInit {
  return { at: timestampFromMs(at), callId: BigInt(callId), what: toWhat(what, decimalsOf) };
}

function toWhat(what: WhatHappened, decimalsOf: DecimalsOf): NonNullable<EventInit["what"]> {
  switch (what.kind) {
    case "accepted":
      return { case: what.kind, value: what };
    case "delivered": {
      const { leaseExpiresAt, ...delivered } = what;
      const lease = leaseExpiresAt === undefined ? {} : { leaseExpiresAt: timestampFromMs(leaseExpiresAt) };
      return { case: what.kind, value: { ...delivered, ...lease } };
    }
    case "progressed":
      return { case: what.kind, value: what };
    case "acked":
      return { case: what.kind, value: { resultBytes: BigInt(what.resultBytes), status: what.status ?? 0 } };
    case "retried":
      return { case: what.kind, value: what };
    case "deadLettered":
      return { case: what.kind, value: what };
    case "dropped":
      return { case: what.kind, value: {} };
    case "paymentBegun": {
      const { network, asset, symbol, payer, amount } = what;
      const text = amountText(amount, symbol, decimalsOf(what));
      const value = { network, asset, symbol, payer, amountText: text, amountBaseUnits: amount };
      return { case: what.kind, value };
    }
    case "partChanged": {
      const { name, network, asset, symbol, payer, amount, reason, transaction } = what;
      const text = amountText(amount, symbol, decimalsOf(what));
      const token = { network, asset, symbol, payer, amountText: text, amountBaseUnits: amount };
      const value = { ...token, state: statesInEvent(name)[what.state], reason, transaction };
      return { case: name, value } as NonNullable<EventInit["what"]>;
    }
    case "paymentDecided":
      return {
        case: what.kind,
        value: {
          ...what,
          state: PAYMENT_STATES[what.state],
          amountText: amountText(what.amount, what.symbol, decimalsOf(what)),
        },
      };
  }
}
