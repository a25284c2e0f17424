import type { PaymentIntent } from "../../src/core/payment.ts";
import type { SettlementAnswer } from "../../src/x402/facilitators/facilitator.ts";
import { decidePayment, type Evidence } from "../../src/x402/settlement/payment-decision.ts";
import type { Step } from "./explorer.ts";
import { type Answer, ask, currentTask } from "./tasks.ts";

/** A chain with one token, and two facilitators of which the first may lie. Payments are told apart by their number. */
export class Money {
  /** Untrue answers that the first facilitator may still give. */
  lies: number;
  /** Untrue views of the chain that its node may still give. */
  falseViews: number;
  /** Everybody answers from now on, and tells the truth. */
  isHealthy = false;
  readonly #moved = new Set<number>();
  readonly #expired = new Set<number>();
  /** Payments whose transaction a facilitator has sent and the chain has not mined. */
  readonly #underway = new Set<number>();

  /** Payments that a false view showed. */
  readonly #misjudged = new Set<number>();

  constructor(lies: number, falseViews: number) {
    this.lies = lies;
    this.falseViews = falseViews;
  }

  hasMoved(payment: number): boolean {
    return this.#moved.has(payment);
  }

  /** A false view of the chain showed that this payment can never move. */
  wasMisjudged(payment: number): boolean {
    return this.#misjudged.has(payment);
  }

  state(): unknown {
    const sets = [this.#moved, this.#expired, this.#underway, this.#misjudged];
    return [...sets.map((payments) => [...payments].sort()), this.lies, this.falseViews];
  }

  /** The end of a payment's time comes. */
  expire(payment: number): void {
    this.#expired.add(payment);
    this.#underway.delete(payment);
  }

  hasExpired(payment: number): boolean {
    return this.#expired.has(payment);
  }

  /** Steps that the chain takes by itself. */
  steps(): Step[] {
    return [...this.#underway].map((payment) => ({
      name: `the chain mines payment ${payment}`,
      run: () => this.#move(payment),
    }));
  }

  /** Looks at the chain, through a node that may lag behind. */
  look({ key }: PaymentIntent): Promise<Evidence> {
    const payment = Number(key.nonce);
    return ask("look", () => {
      const outcome = { kind: "paid", transaction: transactionOf(payment) } as const;
      const unused = (expired: boolean) => () => decidePayment({ nonce: "unused", expired });
      const paid = () => decidePayment({ nonce: "used", confirmed: true, outcome });
      const hasMoved = this.hasMoved(payment);
      const hasExpired = !hasMoved && this.hasExpired(payment);
      const deceive = () => {
        this.falseViews--;
        this.#misjudged.add(payment);
      };
      const answers: Answer[] = [];
      if (hasMoved) answers.push({ name: "paid", value: paid });
      // A node may lag behind.
      if (!hasExpired && !(hasMoved && this.isHealthy))
        answers.push({ name: "unused", value: unused(false) });
      if (hasExpired) answers.push({ name: "expired", value: unused(true) });
      else if (this.falseViews > 0)
        answers.push({ name: "expired, which is false", effect: deceive, value: unused(true) });
      return answers;
    });
  }

  /** Asks a facilitator to settle the payment of the running task. */
  settle(facilitator: "first" | "second"): Promise<SettlementAnswer> {
    const { payment } = currentTask();
    const yes = () => ({ kind: "success", transaction: transactionOf(payment), network: "eip155:84532" });
    const no = () => ({ kind: "refused", reason: "no" });
    const silence = () => ({ kind: "no_answer", reason: "time out" });
    const move = () => this.#move(payment);
    const send = () => {
      this.#underway.add(payment);
    };
    const lie = (also?: () => void) => () => {
      this.lies--;
      also?.();
    };
    return ask(`settle at the ${facilitator} facilitator`, () => {
      const canMove = !this.hasMoved(payment) && !this.hasExpired(payment);
      const canLie = facilitator === "first" && this.lies > 0;
      const falseYes: Answer[] = canLie ? [{ name: "a false yes", effect: lie(), value: yes }] : [];
      if (!canMove) return [{ name: "no", value: no }, ...(this.hasMoved(payment) ? [] : falseYes)];
      const pays: Answer = { name: "pays, yes", effect: move, value: yes };
      if (this.isHealthy) return [pays];
      return [
        pays,
        { name: "no", value: no },
        { name: "pays, no answer", effect: move, value: silence },
        { name: "sends, no answer", effect: send, value: silence },
        ...falseYes,
        ...(canLie ? [{ name: "pays, a false no", effect: lie(move), value: no }] : []),
      ];
    });
  }

  #move(payment: number): void {
    this.#underway.delete(payment);
    if (!this.hasExpired(payment)) this.#moved.add(payment);
  }
}

function transactionOf(payment: number): string {
  return `0x${String(payment).padStart(64, "c")}`;
}
