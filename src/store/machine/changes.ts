import type { PaymentIntent, PaymentState, PurchaseNotes } from "../../core/payment.ts";
import type { SoldPayment } from "../payment-row.ts";
import type { RowKey, Rows, Table, ValuesOf } from "../rows.ts";
import { HOUR_MS, type PaymentEvent } from "../rules/payments.ts";
import type { Announcement, EndedCall } from "./announcements.ts";

/** Columns of a dead letter. */
export interface DeadCall extends EndedCall {
  readonly dead_at: number;
  readonly dead_reason: string;
}

/** Change that a commit makes, with the row after the change. Times are Unix milliseconds. */
export type Change =
  /** A payment began after a module had allowed it ({@link "../module.ts".BeginGate}). */
  | {
      readonly kind: "paymentBegun";
      readonly payment: SoldPayment;
      readonly intent: PaymentIntent;
      readonly at: number;
    }
  /** The state of a payment changed, or a payment began with a decided state. */
  | {
      readonly kind: "paymentDecided";
      readonly payment: SoldPayment;
      readonly from: PaymentState | undefined;
    }
  /** The chain contradicts a decided payment. */
  | { readonly kind: "paymentContradicted"; readonly payment: SoldPayment; readonly at: number }
  | Finished
  | { readonly kind: "deadLettered"; readonly call: EndedCall; readonly reason: string; readonly at: number }
  /** The operator dropped a dead letter. */
  | { readonly kind: "dropped"; readonly call: EndedCall }
  /** The operator put a dead letter back in the queue. */
  | { readonly kind: "revived"; readonly callId: number }
  /** The operator resumed a key, and no JobCall of the key is ready, leased or delayed. */
  | { readonly kind: "keyResumed"; readonly orderKey: string }
  /** The operator decided about the money of a failed JobCall, which a module can give back itself. */
  | { readonly kind: "returnDecided"; readonly callId: number; readonly isReturned: boolean }
  /** The seller owes a part of a payment back to its payer, although the JobCall has not failed. */
  | {
      readonly kind: "owed";
      readonly payment: SoldPayment;
      /** Token units. */
      readonly amount: string;
      readonly at: number;
    }
  /** Money left an account of the seller. */
  | { readonly kind: "moneySent"; readonly sent: SentMoney }
  /** An event for operators, and possibly for a buyer. */
  | { readonly kind: "announced"; readonly announcement: Announcement };

/** A JobCall was acked. */
export interface Finished {
  readonly kind: "finished";
  readonly call: EndedCall;
  /** Charge of the JobCall's deferred payment, in token units; null if the JobCall has no deferred payment. */
  readonly charge: string | null;
  /** HTTP status of the JobCall's result; undefined for 200. From 400 on, the JobCall has failed. */
  readonly status: number | undefined;
  readonly at: number;
}

/** A transaction of the seller that moved money, or an amount that the seller expected and does not receive. */
export interface SentMoney {
  /** Kind of the movement. */
  readonly as: string;
  readonly at: number;
  /** Payment for which the money was sent; undefined for a fee in the network's own coin. */
  readonly payment: SoldPayment | undefined;
  /** Token of money that belongs to no single payment; undefined for the network's own coin. */
  readonly token?: { readonly asset: string; readonly symbol: string; readonly decimals: number } | undefined;
  readonly network: string;
  /** Base units. */
  readonly amount: string;
  readonly account: string | null;
  readonly counterparty: string | null;
  readonly transaction_hash: string | null;
  readonly block_number: string | null;
}

/** Settled amount that is added to the sum of its hour. */
export interface Revenue {
  /** Unix hours. */
  readonly hour: number;
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  readonly amount: string;
}

/** Consequence of a change in the same commit: a write, or another change. */
export type Effect =
  /** An event that may decide a payment. */
  | {
      readonly kind: "payment";
      readonly payment: SoldPayment;
      readonly event: PaymentEvent;
      readonly at: number;
    }
  | { readonly kind: "put" | "add" | "count"; readonly table: RowKey["table"]; readonly row: object }
  | ({ readonly kind: "remove" } & RowKey)
  /** A JobCall that its order withheld becomes ready. */
  | { readonly kind: "ready"; readonly callId: number }
  | { readonly kind: "change"; readonly change: Change }
  | { readonly kind: "revenue"; readonly revenue: Revenue };

/** Writes a row that the commit has read. */
export function put<Row extends ValuesOf<Row>, Key extends keyof Row>(
  table: Table<Row, Key>,
  row: Readonly<Row>,
): Effect {
  return { kind: "put", table, row };
}

/** Adds a row whose key the database generates. */
export function add<Row extends ValuesOf<Row>, Key extends keyof Row>(
  table: Table<Row, Key>,
  row: Readonly<Omit<Row, Key>>,
): Effect {
  return { kind: "add", table, row };
}

/** Adds to the numbers of a row. */
export function count<Row extends ValuesOf<Row>, Key extends keyof Row>(
  table: Table<Row, Key>,
  by: Readonly<Row>,
): Effect {
  return { kind: "count", table, row: by };
}

/** Rows that reactions read in addition to the change, including the commit's changes so far. */
export interface Known {
  /** Finds the payment of a JobCall. */
  payment(callId: number): SoldPayment | undefined;
  /** Finds the values that parts keep of the request that bought a JobCall. */
  notes(callId: number): PurchaseNotes | undefined;
  /** Returns true for a JobCall that was acked without failing. */
  hasSucceeded(callId: number): boolean;
  /** Returns true if a module itself gives the money of a failed job back to the payer. */
  givesBack(payment: SoldPayment): boolean;
  /** Finds the oldest JobCall that waits for other JobCalls with its key. */
  firstWaiting(orderKey: string): number | undefined;
  readonly rows: Pick<Rows, "find" | "all">;
}

/** Effects of changes, by the kind of the change. */
export type Reactions = {
  readonly [Kind in Change["kind"]]?: (change: Extract<Change, { kind: Kind }>, known: Known) => Effect[];
};

/** Finds the payment of a JobCall; undefined for a webhook's JobCall. */
export function paymentOf({ call_id, origin }: EndedCall, known: Known): SoldPayment | undefined {
  return origin === "x402" ? known.payment(call_id) : undefined;
}

/** Sums of settled amounts by hour. */
export const REVENUE: Reactions = {
  paymentDecided({ payment }) {
    const { state, updated_at, network, asset, symbol, amount } = payment;
    if (state !== "settled") return [];
    const hour = Math.floor(updated_at / HOUR_MS);
    return [{ kind: "revenue", revenue: { hour, network, asset, symbol, amount } }];
  },
};

/** Adds up revenue by hour and token. */
export function sumsByHour(
  revenue: readonly Revenue[],
): (Omit<Revenue, "amount"> & { readonly amount: bigint; readonly payments: number })[] {
  const sums = new Map<string, ReturnType<typeof sumsByHour>[number]>();
  for (const one of revenue) {
    const key = `${one.hour} ${one.network} ${one.asset} ${one.symbol}`;
    const { amount, payments } = sums.get(key) ?? { amount: 0n, payments: 0 };
    sums.set(key, { ...one, amount: amount + BigInt(one.amount), payments: payments + 1 });
  }
  return [...sums.values()];
}
