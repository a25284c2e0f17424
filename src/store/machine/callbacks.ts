import { stringify } from "lossless-json";
import type { CallbackEvent } from "../../core/callbacks.ts";
import { CALLBACK_COLUMNS, type CallbackRow, ENDPOINT_COLUMNS, type EndpointRow } from "../callback-row.ts";
import { CALLBACK_TRIED_MS } from "../contract/callback-ledger.ts";
import type { SoldPayment } from "../payment-row.ts";
import type { RefundRow } from "../refund-row.ts";
import type { Table } from "../rows.ts";
import { transactionOf } from "./books.ts";
import { add, type Effect, type EndedCall, type Known, paymentOf, type Reactions } from "./changes.ts";

export const CALLBACKS_TABLE: Table<CallbackRow, "id"> = {
  name: "callbacks",
  key: ["id"],
  columns: CALLBACK_COLUMNS,
};

/** The operator's URLs. */
export const ENDPOINTS: Table<EndpointRow, "url"> = {
  name: "callback_endpoints",
  key: ["url"],
  columns: ENDPOINT_COLUMNS,
};

/** Callbacks to operators and buyers, with the JSON that they get. */
export const CALLBACK_REACTIONS: Reactions = {
  paymentDecided({ payment }, known) {
    const { state, updated_at: at, settlement, reason } = payment;
    const event = (event: CallbackEvent, more: object) =>
      called({ event, at, data: () => ({ ...soldAs(payment), ...more }), buyersUrl: null }, known);
    return [
      ...(state === "settled" ? event("payment.settled", { transaction: transactionOf(settlement) }) : []),
      ...(state === "unresolved" ? event("payment.unresolved", { reason }) : []),
      // A call that is paid by use ends for its client once it ran and its charge is certain.
      ...(payment.ceiling !== null && isCertain(payment) && known.hasSucceeded(payment.call_id)
        ? called(ended(ofPayment(payment), statusOf(payment), at, payment.callback_url), known)
        : []),
    ];
  },

  finished({ call, charge, at }, known) {
    const payment = charge === null ? undefined : paymentOf(call, known);
    if (payment !== undefined && !isCertain(payment)) return [];
    const status = payment === undefined ? "succeeded" : statusOf(payment);
    return called(ended(call, status, at, buyersUrlOf(call, known)), known);
  },

  deadLettered({ call, reason, at }, known) {
    const data = () => ({ ...callOf(call), attempts: call.attempts, reason });
    return [
      ...called({ event: "dead_letter", at, data, buyersUrl: null }, known),
      ...called(ended(call, "failed", at, buyersUrlOf(call, known)), known),
    ];
  },

  refundChanged({ from, refund }, known) {
    const { state, updated_at: at, hash: transaction, reason } = refund;
    if (state === "owed" && (from === undefined || from === "cancelled")) {
      const data = () => ({ ...refundOf(refund), waits_for_approval: refund.is_approved === 0 });
      return called({ event: "refund.owed", at, data, buyersUrl: null }, known);
    }
    const payment = known.payment(refund.call_id);
    if (payment === undefined || (state !== "refunded" && state !== "refund_failed")) return [];
    const buyersUrl = payment.callback_url;
    const { call_id, ...money } = refundOf(refund);
    const data = () => ({
      ...{ call_id, origin: "x402", ...money },
      ...{ transaction: transaction ?? undefined, reason: reason ?? undefined },
    });
    return state === "refunded"
      ? [
          ...called(ended(ofPayment(payment), "refunded", at, buyersUrl), known),
          ...called({ event: "refund.sent", at, data, buyersUrl }, known),
        ]
      : called({ event: "refund.failed", at, data, buyersUrl }, known);
  },
};

/** Event that operators, and the buyer of the payment, may be called back about. */
interface Happened {
  readonly event: CallbackEvent;
  readonly at: number;
  /** Describes the event, if anyone is called back. */
  readonly data: () => { readonly call_id: number; readonly [name: string]: unknown };
  /** URL of the buyer who is called back about the event. */
  readonly buyersUrl: string | null;
}

/** Makes a callback for each URL that wants an event. */
function called({ event, at, data, buyersUrl }: Happened, known: Known): Effect[] {
  const endpoints = known.rows.all(ENDPOINTS).filter(({ events }) => events.includes(` ${event} `));
  if (endpoints.length === 0 && buyersUrl === null) return [];
  const described = data();
  const callback = (url: string, host: string, is_buyers: 0 | 1, shown: object): Effect => {
    const of = { event, call_id: described.call_id, at, data: stringify(shown) ?? "" };
    const due = { due_at: at, give_up_at: at + CALLBACK_TRIED_MS };
    const fresh = { state: "pending", attempts: 0, reason: null, ended_at: null } as const;
    return add(CALLBACKS_TABLE, { ...of, url, host, is_buyers, ...fresh, ...due });
  };
  const callbacks = endpoints.map(({ url, host }) => callback(url, host, 0, described));
  if (buyersUrl === null) return callbacks;
  // A buyer does not see why a refund failed: only the operator can do something about it.
  const shown = event === "refund.failed" ? { ...described, reason: undefined } : described;
  return [...callbacks, callback(buyersUrl, new URL(buyersUrl).host, 1, shown)];
}

type Status = "succeeded" | "failed" | "refunded";

function ended(
  call: Omit<EndedCall, "attempts">,
  status: Status,
  at: number,
  buyersUrl: string | null,
): Happened {
  return { event: "call.finished", at, data: () => ({ ...callOf(call), status }), buyersUrl };
}

function buyersUrlOf({ call_id, origin }: EndedCall, known: Known): string | null {
  return origin === "x402" ? known.buyersUrl(call_id) : null;
}

function callOf({ call_id, origin, service_id, job_id }: Omit<EndedCall, "attempts">) {
  // Their digits are more than a number can keep.
  return { call_id, origin, service_id: BigInt(service_id), job_id: BigInt(job_id) };
}

function ofPayment({ call_id, service_id, job_index }: SoldPayment): Omit<EndedCall, "attempts"> {
  return { call_id, origin: "x402", service_id, job_id: String(job_index) };
}

function soldAs({ call_id, service_id, job_index, network, asset, symbol, amount, payer }: SoldPayment) {
  return {
    call_id,
    service_id: BigInt(service_id),
    job_id: job_index,
    network,
    asset,
    symbol,
    amount,
    payer,
  };
}

function refundOf({ call_id, network, asset, symbol, amount, payer }: RefundRow) {
  return { call_id, network, asset, symbol, amount, payer };
}

/** Returns true once nothing more is to be charged. */
function isCertain({ state }: SoldPayment): boolean {
  return state === "settled" || state === "failed" || state === "released";
}

/** Status that the buyer of a JobCall by use is told once its charge is decided. If the charge failed, the JobCall failed. */
function statusOf({ state }: SoldPayment): Status {
  return state === "failed" ? "failed" : "succeeded";
}
