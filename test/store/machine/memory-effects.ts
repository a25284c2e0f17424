import type { EndpointRow } from "../../../src/store/callback-row.ts";
import type { EndedCall, SoldPayment } from "../../../src/store/machine/changes.ts";
import { Effects } from "../../../src/store/machine/effects.ts";
import type { RefundRow } from "../../../src/store/refund-row.ts";

/** Effects on rows in memory. */
export class MemoryEffects extends Effects {
  readonly payments = new Map<number, SoldPayment>();
  readonly refunds = new Map<number, RefundRow>();
  readonly watched = new Map<number, number>();
  readonly succeeded = new Set<number>();
  readonly operatorsUrls: EndpointRow[] = [];

  payment(callId: number): SoldPayment | undefined {
    return this.payments.get(callId);
  }

  refund(callId: number): RefundRow | undefined {
    return this.refunds.get(callId);
  }

  refundAccount(): string | null {
    return null;
  }

  hasSucceeded(callId: number): boolean {
    return this.succeeded.has(callId);
  }

  endpoints(): readonly EndpointRow[] {
    return this.operatorsUrls;
  }

  watch({ call_id }: SoldPayment, since: number): void {
    this.watched.set(call_id, since);
  }

  /** Acks a JobCall. @returns the events that buyers and the operator are called back about */
  finish(call: EndedCall, charge: string | null, at: number): string[] {
    this.succeeded.add(call.call_id);
    this.note({ kind: "finished", call, charge, at });
    return this.events();
  }

  events(): string[] {
    return this.takeAdded().callbacks.map(({ event }) => event);
  }

  protected changePayment(payment: SoldPayment): void {
    this.payments.set(payment.call_id, payment);
  }

  protected changeRefund(refund: RefundRow): void {
    this.refunds.set(refund.call_id, refund);
  }
}
