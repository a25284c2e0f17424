import type { PurchaseNotes } from "../../../src/core/payment.ts";
import type { EndedCall } from "../../../src/store/machine/announcements.ts";
import { Effects, type PaymentRows } from "../../../src/store/machine/effects.ts";
import { notesOf, type PaymentRow, type SoldPayment } from "../../../src/store/payment-row.ts";
import { added, type RowKey, type Rows, type SqlValue } from "../../../src/store/rows.ts";
import { holdsName, type PaymentEffect } from "../../../src/store/rules/payments.ts";

/** Payments in memory, and what their decisions wrote. */
export class MemoryPayments implements PaymentRows {
  readonly rows = new Map<number, PaymentRow>();
  readonly watched = new Map<number, number>();
  /** Effects in the order in which they were carried out. */
  readonly effects: PaymentEffect[] = [];
  readonly #onQueued: (payment: SoldPayment) => void;

  constructor(onQueued: (payment: SoldPayment) => void = () => {}) {
    this.#onQueued = onQueued;
  }

  isWatched({ call_id }: SoldPayment): boolean {
    return this.watched.has(call_id);
  }

  isNameTaken({ call_id, purchase_name }: SoldPayment): boolean {
    return [...this.rows.values()].some(
      (row) => row.call_id !== call_id && row.purchase_name === purchase_name && holdsName(row),
    );
  }

  change(payment: SoldPayment): void {
    const row = this.rows.get(payment.call_id);
    if (row !== undefined) this.rows.set(payment.call_id, { ...row, ...payment });
  }

  queueCall(payment: SoldPayment): void {
    this.effects.push("queueCall");
    this.#onQueued(payment);
  }

  dropCall(): void {
    this.effects.push("dropCall");
  }
  keepCall(): void {
    this.effects.push("keepCall");
  }

  requeueCall(payment: SoldPayment): void {
    this.effects.push("requeueCall");
    this.#onQueued(payment);
  }

  freeNonce(): void {
    this.effects.push("freeNonce");
  }

  useNonce(): void {
    this.effects.push("useNonce");
  }

  watch({ call_id }: SoldPayment, at: number): void {
    this.effects.push("watch");
    this.watched.set(call_id, at);
  }

  watchUntilFinal({ call_id }: SoldPayment, at: number): void {
    this.effects.push("watchUntilFinal");
    this.watched.set(call_id, at);
  }

  endWatch({ call_id }: SoldPayment): void {
    this.effects.push("endWatch");
    this.watched.delete(call_id);
  }
}

/** Rows of modules in memory. */
class MemoryRows implements Rows {
  readonly #rows = new Map<string, unknown>();
  /** Rows that were added since {@link takeAdded}, by table. */
  readonly #added = new Map<string, unknown[]>();

  find<Row>(table: RowKey["table"], key: object): Row | undefined {
    return this.#rows.get(textOf(table, key)) as Row | undefined;
  }

  put(table: RowKey["table"], row: object): void {
    this.#rows.set(textOf(table, row), row);
  }

  all(): readonly [] {
    return [];
  }

  remove(table: RowKey["table"], key: object): void {
    this.#rows.delete(textOf(table, key));
  }

  add({ name }: RowKey["table"], row: object): void {
    this.#added.set(name, [...(this.#added.get(name) ?? []), row]);
  }

  count(table: RowKey["table"], by: Record<string, SqlValue>): void {
    this.put(table, added(table, this.find(table, by), by));
  }

  forget(): void {}

  takeAdded(name: string): readonly unknown[] {
    const added = this.#added.get(name) ?? [];
    this.#added.delete(name);
    return added;
  }
}

function textOf({ name, key }: RowKey["table"], row: object): string {
  return JSON.stringify([name, ...key.map((column) => (row as Record<string, unknown>)[column])]);
}

/** Effects on rows in memory. */
export class MemoryEffects extends Effects {
  readonly rows = new MemoryRows();
  readonly paymentRows: MemoryPayments;
  readonly #succeeded = new Set<number>();

  constructor(payments = new MemoryPayments()) {
    super();
    this.paymentRows = payments;
  }

  payment(callId: number): PaymentRow | undefined {
    return this.paymentRows.rows.get(callId);
  }

  notes(callId: number): PurchaseNotes | undefined {
    return notesOf(this.payment(callId)?.notes ?? null);
  }

  protected hadSucceeded(callId: number): boolean {
    return this.#succeeded.has(callId);
  }

  isHeld(): boolean {
    return true;
  }

  firstWaiting(): undefined {}

  freesPlace(): void {}

  protected makeReady(): void {}

  /** Acks a JobCall. @returns the events that the buyer is called back about */
  finish(call: EndedCall, charge: string | null, at: number): string[] {
    this.#succeeded.add(call.call_id);
    this.finished(call, { charge, status: undefined, at });
    return this.events();
  }

  /** Returns the events since the last call that the buyer is called back about. */
  events(): string[] {
    return (this.rows.takeAdded("callbacks") as { readonly event: string }[]).map(({ event }) => event);
  }
}
