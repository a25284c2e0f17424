import { ownerAndKey } from "../../core/job-call.ts";
import { defined } from "../../core/objects.ts";
import type { PurchaseNotes } from "../../core/payment.ts";
import { hasFailed } from "../../core/result-answer.ts";
import type { AckedLease, DeadLetteredCall } from "../contract/work-queue.ts";
import type { Commit } from "../module.ts";
import { gateOf, ORDERING, reactionsTo } from "../modules/modules.ts";
import type { SoldPayment } from "../payment-row.ts";
import type { Rows } from "../rows.ts";
import {
  decidePayment,
  type PaymentEffect,
  type PaymentEvent,
  type PaymentFacts,
} from "../rules/payments.ts";
import type { EndedCall } from "./announcements.ts";
import {
  type Change,
  type DeadCall,
  type Effect,
  type Finished,
  type Known,
  paymentOf,
  type Revenue,
  sumsByHour,
} from "./changes.ts";
import { decidedCharge } from "./deferred.ts";

/** Rows of payments in a database, and the rows that their decisions change. */
export type PaymentRows = PaymentFacts & {
  /** Writes a payment after an event. */
  change(payment: SoldPayment, before: SoldPayment): void;
} & { readonly [Name in PaymentEffect]: (payment: SoldPayment, at: number) => void };

/**
 * Effects of a commit's changes that are the same in both databases. Reactions run at once. If an effect decides a payment,
 * the decision is a further change.
 */
export abstract class Effects implements Known, Commit {
  #revenue: Revenue[] = [];
  readonly #succeeded = new Set<number>();

  abstract readonly rows: Rows;
  abstract payment(callId: number): SoldPayment | undefined;
  abstract notes(callId: number): PurchaseNotes | undefined;
  /** Returns true for a JobCall that succeeded in an earlier commit. */
  protected abstract hadSucceeded(callId: number): boolean;
  abstract isHeld(lock: string, owner: string, now: number): boolean;
  abstract firstWaiting(orderKey: string): number | undefined;
  /** Records that JobCalls which a job's limit withheld can be given out. */
  abstract freesPlace(): void;
  /** Makes a JobCall ready that its order withheld. */
  protected abstract makeReady(callId: number): void;
  protected abstract readonly paymentRows: PaymentRows;

  /** Applies the effects of a change. */
  note(change: Change): void {
    for (const effect of react(change, this)) this.#apply(effect);
  }

  /** Lets an event decide a payment. @returns the payment after the event; undefined if the event changes nothing */
  decide<Payment extends SoldPayment>(
    before: Payment | undefined,
    event: PaymentEvent,
    at: number,
  ): Payment | undefined {
    const rows = this.paymentRows;
    const decision = before && decidePayment(before, event, rows, at);
    if (before === undefined || decision === undefined) return undefined;
    const { payment, effects } = decision;
    rows.change(payment, before);
    // The payment's voucher may have paid for another JobCall since, so nothing may sell this JobCall later.
    const isOver =
      payment.state === "failed" && gateOf({ transferMethod: payment.transfer_method }) !== undefined;
    for (const effect of effects) {
      if (effect === "watch" && isOver) continue;
      rows[effect === "keepCall" && isOver ? "dropCall" : effect](payment, at);
    }
    if (payment.state !== before.state) this.note({ kind: "paymentDecided", payment, from: before.state });
    else if (event.kind === "contradict") this.note({ kind: "paymentContradicted", payment, at });
    return payment;
  }

  hasSucceeded(callId: number): boolean {
    return this.#succeeded.has(callId) || this.hadSucceeded(callId);
  }

  givesBack({ transfer_method: transferMethod, call_id }: SoldPayment): boolean {
    return gateOf({ transferMethod })?.givesBack(call_id, this.rows) ?? false;
  }

  /** Puts a dead letter into the queue again. @returns the state that its order allows */
  readmit({ call_id, order_key }: EndedCall): "ready" | "held" {
    const isFirst = order_key === null || (ORDERING?.addAgain(call_id, order_key, this.rows) ?? true);
    return isFirst ? "ready" : "held";
  }

  /** Returns true for a JobCall that was ready, leased or delayed, and that runners cannot have again before the operator resumes its key. */
  mustWait({ order_key }: Pick<EndedCall, "order_key">): boolean {
    return order_key !== null && (ORDERING?.takeBack(order_key, this.rows) ?? false);
  }

  /** Notes that a JobCall was acked. */
  finished(call: EndedCall, how: Omit<Finished, "kind" | "call">): AckedLease {
    const charge = how.charge === null ? undefined : decidedCharge(this.payment(call.call_id), how.charge);
    if (!hasFailed(how.status)) this.#succeeded.add(call.call_id);
    this.note({ kind: "finished", call, charge: how.charge, status: how.status, at: how.at });
    return charge === undefined ? { outcome: "done" } : { outcome: "done", charge };
  }

  /** Notes that a JobCall became a dead letter. @returns the dead letter, with the payment that it released */
  deadLettered(call: DeadCall): DeadLetteredCall {
    const { call_id: callId, dead_reason: reason, dead_at: deadAt, order_key: orderKey } = call;
    const released = decidedCharge(paymentOf(call, this), "0");
    this.note({ kind: "deadLettered", call, reason, at: deadAt });
    const holds = orderKey !== null && ORDERING?.isHeldBy(callId, orderKey, this.rows);
    const holdsKeyOf = holds ? ownerAndKey(orderKey).owner : undefined;
    return { callId, reason, deadAt, ...defined({ released, holdsKeyOf }) };
  }

  #apply(effect: Effect): void {
    switch (effect.kind) {
      case "payment":
        this.decide(effect.payment, effect.event, effect.at);
        break;
      case "put":
        this.rows.put(effect.table, effect.row);
        break;
      case "add":
        this.rows.add(effect.table, effect.row);
        break;
      case "count":
        this.rows.count(effect.table, effect.row);
        break;
      case "remove":
        this.rows.remove(effect.table, effect.key);
        break;
      case "ready":
        this.makeReady(effect.callId);
        break;
      case "change":
        this.note(effect.change);
        break;
      case "revenue":
        this.#revenue.push(effect.revenue);
        break;
    }
  }

  /** Returns the sums of settled amounts by hour, and resets them. */
  protected takeRevenue() {
    const sums = sumsByHour(this.#revenue);
    this.#revenue = [];
    this.#succeeded.clear();
    return sums;
  }
}

/** Decides the further writes that a change causes in its commit. */
function react(change: Change, known: Known): Effect[] {
  const reactions = reactionsTo(change.kind) as readonly ((change: Change, known: Known) => Effect[])[];
  return reactions.flatMap((reaction) => reaction(change, known));
}
