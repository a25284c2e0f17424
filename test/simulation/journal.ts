import type { PaymentIntent, PaymentKey, PaymentRecord } from "../../src/core/payment.ts";
import type { BeginPaymentOutcome, PaymentJournal } from "../../src/store/contract/payment-journal.ts";
import { paymentSteps } from "../../src/store/machine/payment-steps.ts";
import { noncesOf, toPaymentRecord, toPaymentRow } from "../../src/store/payment-row.ts";
import { beginDecision, holdsName } from "../../src/store/rules/payments.ts";
import { MemoryEffects, MemoryPayments } from "../store/machine/memory-effects.ts";
import { type Answer, ask } from "./tasks.ts";

/** The writes that decide about a payment. */
export type JournalWrites = Pick<
  PaymentJournal,
  | "beginPayment"
  | "settlePayment"
  | "failPayment"
  | "leavePaymentUnresolved"
  | "confirmPayment"
  | "findPayment"
>;

/** A journal in memory that decides as the stores do. */
export class ModelJournal {
  /** Writes that the store may still answer with an error, whether it makes them or not. */
  faults: number;
  /** JobCalls queued for each payment, by call ID. */
  readonly #jobs = new Map<number, number>();
  readonly #payments = new MemoryPayments(({ call_id }) =>
    this.#jobs.set(call_id, (this.#jobs.get(call_id) ?? 0) + 1),
  );
  readonly steps = paymentSteps((key) => this.#row(key), new MemoryEffects(this.#payments));

  constructor(faults: number) {
    this.faults = faults;
  }

  /** Rows of a payment: a gateway without its guard begins one twice. */
  #rows({ nonce }: Pick<PaymentKey, "nonce">) {
    return [...this.#payments.rows.values()].filter((row) => row.nonce === nonce);
  }

  #row(key: PaymentKey) {
    return this.#rows(key).at(-1);
  }

  find(key: PaymentKey): PaymentRecord | undefined {
    const row = this.#row(key);
    return row && toPaymentRecord(row);
  }

  jobsOf(key: Pick<PaymentKey, "nonce">): number {
    return this.#rows(key).reduce((sum, { call_id }) => sum + (this.#jobs.get(call_id) ?? 0), 0);
  }

  state(): unknown {
    const rows = [...this.#payments.rows.values()];
    const records = rows.map((row) => [row.nonce, row.state, this.jobsOf(row)]);
    return [records.sort(), this.faults];
  }

  /** The journal as the gateway's tasks have it. */
  forTasks(): PaymentJournal {
    const journal: JournalWrites & Pick<PaymentJournal, "isShared"> = {
      isShared: true,
      beginPayment: (intent) => this.#ask("begin", () => this.begin(intent)),
      settlePayment: (key, settlement) =>
        this.#ask("settle", () => this.steps.settlePayment(0, key, settlement)),
      failPayment: (key, settlement, reason) =>
        this.#ask("fail", () => this.steps.failPayment(0, key, settlement, reason)),
      leavePaymentUnresolved: (key, reason) =>
        this.#ask("leave", () => this.steps.leavePaymentUnresolved(0, key, reason)),
      confirmPayment: (key, state) =>
        ask("confirm", () => [{ name: "done", value: () => this.steps.confirmPayment(0, key, state) }]),
      findPayment: (key) => ask("find", () => [{ name: "done", value: () => this.find(key) }]),
    };
    return journal as PaymentJournal;
  }

  #ask<T>(write: string, make: () => T): Promise<T> {
    return ask(write, () => {
      let made: T;
      const effect = () => {
        made = make();
      };
      const fault = () => {
        this.faults--;
      };
      const both = () => {
        fault();
        effect();
      };
      const error = "the store refuses";
      const done: Answer = { name: "done", effect, value: () => made };
      if (this.faults === 0) return [done];
      return [
        done,
        { name: "refused", effect: fault, error },
        { name: "made and refused", effect: both, error },
      ];
    });
  }

  begin(intent: PaymentIntent): BeginPaymentOutcome {
    const { key, purchaseName } = intent;
    const { rows } = this.#payments;
    const notFailed = [...rows.values()].filter(({ state }) => state !== "failed");
    const ofPurchase = [...rows.values()].find(
      (row) => purchaseName !== undefined && row.purchase_name === purchaseName && holdsName(row),
    );
    const decision = beginDecision({
      intent,
      known: this.find(key) ?? (ofPurchase && toPaymentRecord(ofPurchase)),
      isNonceUsed: ({ key }) => notFailed.some((row) => noncesOf(row).some((used) => used.key === key)),
      hasRoom: true,
      undecided: { total: 0, ofPayer: 0 },
      openUnits: 0n,
      limits: undefined,
      refusal: undefined,
      now: 0,
    });
    if (decision.kind !== "begin") return decision;
    const callId = rows.size + 1;
    rows.set(callId, toPaymentRow(intent, callId, 0));
    return { kind: "begun", callId };
  }
}
