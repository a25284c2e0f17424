import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { amountText } from "../core/amounts.ts";
import type { GatewayEvent, WhatHappened } from "../core/events.ts";
import type { PaymentClosing, PaymentRecord, PaymentState as PaymentStateName } from "../core/payment.ts";
import type { RunnerReport } from "../delivery/subscription.ts";
import { type EventSchema, PaymentState, PaymentVerdict } from "../gen/jobgate/v1/operator_pb.ts";
import type { RateReport } from "../pricing/rates/rate-board.ts";
import type { DeadLetter } from "../store/contract/dead-letter-box.ts";
import { isBalanced } from "../store/rules/payments.ts";
import type { Revenue, StoreTotals } from "../store/store.ts";

/** JSON of the API: snake_case names, zero and empty values included. A u64 is a string. */
export const JSON_OPTIONS = { useProtoFieldName: true, alwaysEmitImplicit: true } as const;

/** The API's number for each state of a payment. */
export const PAYMENT_STATES = {
  intent: PaymentState.INTENT,
  settled: PaymentState.SETTLED,
  failed: PaymentState.FAILED,
  unresolved: PaymentState.UNRESOLVED,
} as const satisfies Record<PaymentStateName, PaymentState>;

/** Returns undefined for the unspecified state and for one that this version does not know. */
export function fromPaymentState(message: PaymentState): PaymentStateName | undefined {
  const names = Object.keys(PAYMENT_STATES) as PaymentStateName[];
  return names.find((name) => PAYMENT_STATES[name] === message);
}

/** The API's number for each way to close a payment. */
const PAYMENT_VERDICTS = {
  paid: PaymentVerdict.PAID,
  not_paid: PaymentVerdict.NOT_PAID,
} as const satisfies Record<PaymentClosing["as"], PaymentVerdict>;

export function toTotals({ payments, calls, paidCalls, oldestReadyAt }: StoreTotals) {
  return {
    payments: bigints(payments),
    calls: bigints(calls),
    paidCalls: bigints(paidCalls),
    balanced: isBalanced({ payments, paidCalls }),
    ...(oldestReadyAt === undefined ? {} : { oldestReadyAt: timestampFromMs(oldestReadyAt) }),
  };
}

function bigints<Name extends string>(counts: Readonly<Record<Name, number>>): Record<Name, bigint> {
  const entries = Object.entries<number>(counts).map(([name, count]) => [name, BigInt(count)]);
  return Object.fromEntries(entries) as Record<Name, bigint>;
}

/** Returns the decimals of a token; undefined for one that is not in the configuration. */
export type DecimalsOf = (token: { readonly network: string; readonly asset: string }) => number | undefined;

export function toPayment(record: PaymentRecord, decimalsOf: DecimalsOf) {
  const { serviceId, jobIndex, symbol, amount, payTo, reason = "", closed } = record;
  return {
    ...{ serviceId, jobIndex, symbol, amount, payTo, reason, ...record.key },
    amountText: amountText(amount, symbol, decimalsOf(record.key)),
    callId: BigInt(record.callId),
    state: PAYMENT_STATES[record.state],
    validBefore: timestampFromMs(record.validBefore * 1_000),
    transaction: transactionOf(record.settlement),
    createdAt: timestampFromMs(record.createdAt),
    updatedAt: timestampFromMs(record.updatedAt),
    ...(closed === undefined ? {} : { closed: toClosing(closed) }),
  };
}

function toClosing({ as, by, note, at }: NonNullable<PaymentRecord["closed"]>) {
  return { verdict: PAYMENT_VERDICTS[as], by, note, at: timestampFromMs(at) };
}

function transactionOf(settlement: string | undefined): string {
  if (settlement === undefined) return "";
  const { transaction } = JSON.parse(settlement) as { transaction?: unknown };
  return typeof transaction === "string" ? transaction : "";
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

export function toRunner({ connectedSince, jobIds, ...runner }: RunnerReport) {
  return { ...runner, jobIds: [...jobIds], connectedSince: timestampFromMs(connectedSince) };
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
      const leaseExpiresAt = timestampFromMs(what.leaseExpiresAt);
      return { case: what.kind, value: { ...what, leaseExpiresAt } };
    }
    case "progressed":
      return { case: what.kind, value: what };
    case "acked":
      return { case: what.kind, value: { resultBytes: BigInt(what.resultBytes) } };
    case "retried":
      return { case: what.kind, value: what };
    case "deadLettered":
      return { case: what.kind, value: what };
    case "dropped":
      return { case: what.kind, value: {} };
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
