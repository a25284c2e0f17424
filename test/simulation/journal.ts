import type { PaymentIntent, PaymentKey, PaymentRecord } from "../../src/core/payment.ts";
import type {
  BeginPaymentOutcome,
  FailPaymentOutcome,
  PaymentJournal,
  SettlePaymentOutcome,
} from "../../src/store/contract/payment-journal.ts";
import { beginDecision, canBecome } from "../../src/store/rules/payments.ts";
import { type Answer, ask } from "./tasks.ts";

/** The writes that decide about a payment. */
export type JournalWrites = Pick<
  PaymentJournal,
  "beginPayment" | "settlePayment" | "failPayment" | "leavePaymentUnresolved" | "findPayment"
>;

/** A journal in memory that decides by the rules of the stores. */
export class ModelJournal {
  /** Writes that the store may still answer with an error, whether it makes them or not. */
  faults: number;
  readonly #records = new Map<string, PaymentRecord>();
  /** JobCalls queued for each payment, by nonce. */
  readonly #jobs = new Map<string, number>();

  constructor(faults: number) {
    this.faults = faults;
  }

  find({ nonce }: PaymentKey): PaymentRecord | undefined {
    return this.#records.get(nonce);
  }

  jobsOf({ nonce }: PaymentKey): number {
    return this.#jobs.get(nonce) ?? 0;
  }

  state(): unknown {
    const records = [...this.#records.values()].map(({ key, state }) => [key.nonce, state, this.jobsOf(key)]);
    return [records.sort(), this.faults];
  }

  /** The journal as the gateway's tasks have it. */
  forTasks(): PaymentJournal {
    const journal: JournalWrites & Pick<PaymentJournal, "isShared"> = {
      isShared: true,
      beginPayment: (intent) => this.#ask("begin", () => this.begin(intent)),
      settlePayment: (key, settlement) => this.#ask("settle", () => this.settle(key, settlement)),
      failPayment: (key, settlement) => this.#ask("fail", () => this.fail(key, settlement)),
      leavePaymentUnresolved: (key) => this.#ask("leave", () => this.leave(key)),
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
    const { key, paymentId, redeemsQuote, receipt } = intent;
    const notFailed = [...this.#records.values()].filter(({ state }) => state !== "failed");
    const ofPurchase = notFailed.find((record) => paymentId !== undefined && record.paymentId === paymentId);
    const decision = beginDecision({
      intent,
      known: this.find(key) ?? ofPurchase,
      isNonceUsed: false,
      isQuotePaid:
        redeemsQuote === true &&
        notFailed.some((record) => record.redeemsQuote === true && record.receipt === receipt),
      hasRoom: true,
      undecided: { total: 0, ofPayer: 0 },
      openUnits: 0n,
      limits: undefined,
      now: 0,
    });
    if (decision.kind !== "begin") return decision;
    const callId = this.#records.size + 1;
    this.#records.set(key.nonce, { ...intent, state: "intent", callId, createdAt: 0, updatedAt: 0 });
    return { kind: "begun", callId };
  }

  settle(key: PaymentKey, settlement: string): SettlePaymentOutcome {
    const known = this.find(key);
    if (known === undefined) return { kind: "not_open" };
    const { callId } = known;
    if (known.state === "settled") return { kind: "settled", callId, changed: false, record: known };
    const record = this.#change(known, "settled", settlement);
    if (record === undefined) return { kind: "not_open" };
    this.#jobs.set(key.nonce, this.jobsOf(key) + 1);
    return { kind: "settled", callId, changed: true, record };
  }

  fail(key: PaymentKey, settlement: string): FailPaymentOutcome {
    const record = this.#change(this.find(key), "failed", settlement);
    // From now on its quote can be paid again, whatever becomes of it.
    if (record !== undefined) {
      const { redeemsQuote: _, ...rest } = record;
      this.#records.set(key.nonce, rest);
    }
    return record === undefined ? { kind: "not_open" } : { kind: "failed", record };
  }

  leave(key: PaymentKey): PaymentRecord | undefined {
    return this.#change(this.find(key), "unresolved");
  }

  #change(
    known: PaymentRecord | undefined,
    state: "settled" | "failed" | "unresolved",
    settlement?: string,
  ): PaymentRecord | undefined {
    if (known === undefined || !canBecome(state, known.state)) return undefined;
    const record = { ...known, state, ...(settlement === undefined ? {} : { settlement }) };
    this.#records.set(known.key.nonce, record);
    return record;
  }
}
