import type { EndpointRow, NewCallbackRow } from "../callback-row.ts";
import type { NewMovementRow } from "../movement-row.ts";
import type { RefundRow } from "../refund-row.ts";
import { BOOKS, sumsByHour } from "./books.ts";
import { CALLBACKS } from "./callbacks.ts";
import type { Change, Effect, Known, Reactions, Revenue, SoldPayment } from "./changes.ts";
import { METERED } from "./metered.ts";
import { REFUNDS } from "./refunds.ts";

const REACTIONS: readonly Reactions[] = [METERED, REFUNDS, BOOKS, CALLBACKS];

/**
 * Effects of the changes of a commit, as far as both databases carry them out alike. Reactions run at once; a row that an
 * effect changes is a change again. Rows that effects only add are collected.
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

  /** Carries out the effects of a change. */
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

/** Decides what else a commit writes because of a change. */
function react(change: Change, known: Known): Effect[] {
  return REACTIONS.flatMap((reactions) => {
    const reaction = reactions[change.kind] as ((change: Change, known: Known) => Effect[]) | undefined;
    return reaction?.(change, known) ?? [];
  });
}
