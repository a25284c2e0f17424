import type { EndpointRow, NewCallbackRow } from "../callback-row.ts";
import type { NewMovementRow } from "../movement-row.ts";
import type { RefundRow } from "../refund-row.ts";
import { sumsByHour } from "./books.ts";
import type { Change, Effect, Known, Revenue, SoldPayment } from "./changes.ts";
import { react } from "./react.ts";

/**
 * What the changes of a commit cause, as far as both databases do alike: reactions run at once, and what they change is a
 * change again. Rows that are only added are collected.
 */
export abstract class Effects implements Known {
  #movements: NewMovementRow[] = [];
  #callbacks: NewCallbackRow[] = [];
  #revenue: Revenue[] = [];

  abstract payment(callId: number): SoldPayment | undefined;
  abstract refund(callId: number): RefundRow | undefined;
  abstract refundAccount(refund: RefundRow): string | null;
  abstract hasSucceeded(callId: number): boolean;
  abstract endpoints(): readonly EndpointRow[];
  protected abstract changePayment(payment: SoldPayment): void;
  protected abstract changeRefund(refund: RefundRow): void;
  abstract watch(payment: SoldPayment, since: number): void;

  /** Carries out what a change causes. */
  note(change: Change): void {
    for (const effect of react(change, this)) this.apply(effect);
  }

  apply(effect: Effect): void {
    switch (effect.kind) {
      case "payment":
        this.changePayment(effect.row);
        this.note({ kind: "paymentDecided", payment: effect.row });
        break;
      case "refund":
        this.changeRefund(effect.row);
        if (effect.row.state !== effect.from)
          this.note({ kind: "refundChanged", from: effect.from, refund: effect.row });
        break;
      case "watch":
        this.watch(effect.payment, effect.since);
        break;
      case "callback":
        this.#callbacks.push(effect.row);
        break;
      case "movement":
        this.#movements.push(effect.row);
        break;
      case "revenue":
        this.#revenue.push(effect.revenue);
        break;
    }
  }

  /** Hands over the rows that are only added. */
  protected takeAdded() {
    const added = {
      movements: this.#movements,
      callbacks: this.#callbacks,
      revenue: sumsByHour(this.#revenue),
    };
    this.#movements = [];
    this.#callbacks = [];
    this.#revenue = [];
    return added;
  }
}
