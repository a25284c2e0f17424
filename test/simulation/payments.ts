import { pino } from "pino";
import { GatewayError } from "../../src/core/errors.ts";
import type { PaymentIntent } from "../../src/core/payment.ts";
import type { Facilitators } from "../../src/x402/facilitators/facilitators.ts";
import type { ChainEvidence } from "../../src/x402/settlement/chain-evidence.ts";
import type { PaymentOutcome } from "../../src/x402/settlement/payment-outcome.ts";
import { Settlement } from "../../src/x402/settlement/settlement.ts";
import { oneTimeNonce, paidCall, paymentIntent } from "../store/store-fixtures.ts";
import type { Run, Step } from "./explorer.ts";
import { ModelJournal } from "./journal.ts";
import { Money } from "./money.ts";
import { EARLY_LOOK_MS, Tasks } from "./tasks.ts";

/** How much of each thing can happen in a run. */
export interface Scenario {
  /** Payments for one purchase: by one name, or with one nonce. */
  readonly payments: 1 | 2;
  readonly purchase?: "name" | "nonce";
  /** Requests with each payment, at any replica. */
  readonly requests: number;
  /** Requests with the first payment and another body. */
  readonly thefts: number;
  /** Checks of each payment by the reconciler, at any replica. */
  readonly checks: number;
  readonly crashes: number;
  /** Untrue answers of a facilitator. */
  readonly lies: number;
  /** Views of the chain that show a payment as expired unused, and are not true. */
  readonly falseViews: number;
  /** Writes that the store answers with an error, whether it makes them or not. */
  readonly storeFaults: number;
  /** The chain can be asked. */
  readonly hasChain: boolean;
}

/** One payment that nobody sends, on a chain that can be asked. */
export const NOTHING_HAPPENS: Scenario = {
  payments: 1,
  ...{ requests: 0, thefts: 0, checks: 0, crashes: 0, lies: 0, falseViews: 0, storeFaults: 0 },
  hasChain: true,
};

/** Payments that one run has at most. */
const MAX_PAYMENTS = 2;
const REPLICAS = [1, 2] as const;
/** One for all runs: making it takes longer than a run. */
const SILENT = pino({ level: "silent" });
/** Checks of a payment after everything works again, in turns at each replica. */
const LAST_CHECKS = 4;

/**
 * Payments at two replicas with one journal, one chain and two facilitators. {@link Settlement} is the gateway's own; the
 * journal decides by the gateway's rules.
 */
export class PaymentsRun implements Run {
  readonly #hasChain: boolean;
  readonly #intents: readonly PaymentIntent[];
  readonly #left: { requests: number[]; checks: number[]; crashes: number; thefts: number };
  readonly #money: Money;
  readonly #tasks = new Tasks();
  readonly #settlements: Settlement[] = [];
  readonly #journal: ModelJournal;
  /** Payments whose client heard that they failed. */
  readonly #refused = new Set<number>();
  #broken: string | undefined;

  constructor(scenario: Scenario) {
    const { payments, purchase, requests, checks, crashes, thefts, lies, falseViews, storeFaults, hasChain } =
      scenario;
    this.#intents = Array.from({ length: payments }, (_, i) => intentOf(i, purchase));
    this.#left = {
      requests: this.#intents.map(() => requests),
      checks: this.#intents.map(() => checks),
      ...{ crashes, thefts },
    };
    this.#hasChain = hasChain;
    this.#money = new Money(lies, falseViews);
    this.#journal = new ModelJournal(storeFaults);
    for (const replica of REPLICAS) this.#start(replica);
  }

  steps(): Step[] {
    return [
      ...this.#tasks.steps(),
      ...this.#money.steps(),
      ...(this.#money.isHealthy ? this.#lastChecks() : this.#surroundings()),
    ];
  }

  /** It does not matter which replica is the first. */
  state(): string {
    return [this.#stateWith([1, 2]), this.#stateWith([2, 1])].sort().join();
  }

  #stateWith(names: readonly number[]): string {
    const nameOf = (replica: number) => names[replica - 1] ?? 0;
    // Settlements that the store refused are remembered.
    const remembered = REPLICAS.flatMap((replica) =>
      [...this.#intents.keys()]
        .filter((payment) => this.#tasks.hasHeard(payment, "refused", replica))
        .map((payment) => [nameOf(replica), payment]),
    );
    return JSON.stringify([
      ...[this.#journal.state(), this.#money.state(), this.#tasks.state(nameOf), remembered.sort()],
      ...[this.#left, [...this.#refused].sort(), this.#money.isHealthy],
    ]);
  }

  check(): void {
    if (this.#broken !== undefined) throw new Error(this.#broken);
    const moved = [...this.#intents.keys()].filter((payment) => this.#money.hasMoved(payment));
    if (moved.length > 1) throw new Error("one purchase was paid twice");
    for (const [payment, { key }] of this.#intents.entries()) {
      const hasMoved = moved.includes(payment);
      const jobs = this.#journal.jobsOf(key);
      const state = this.#journal.find(key)?.state;
      if (jobs > 1) throw new Error(`payment ${payment} has ${jobs} jobs`);
      if (jobs === 1 && !hasMoved) throw new Error(`payment ${payment} has a job and was not paid`);
      if (hasMoved && state === undefined)
        throw new Error(`payment ${payment} was paid before it was journalled`);
      if (hasMoved && this.#refused.has(payment) && !this.#money.wasMisjudged(payment))
        throw new Error(`payment ${payment} was paid after a no`);
      if (!this.#isOver()) continue;
      if (hasMoved && jobs === 0 && this.#mustBeKnown(payment))
        throw new Error(`payment ${payment} has no job`);
      const isDecided = state === undefined || state === "settled" || state === "failed";
      if (this.#hasChain && !isDecided) throw new Error(`payment ${payment} stays ${state}`);
    }
  }

  /** Without a chain, only a facilitator's yes tells, while somebody remembers it. */
  #mustBeKnown(payment: number): boolean {
    return this.#hasChain || this.#tasks.hasHeard(payment, "pays, yes");
  }

  #isOver(): boolean {
    return this.#money.isHealthy && this.steps().length === 0;
  }

  /** Steps of clients, reconcilers and time. Each may happen or not. */
  #surroundings(): Step[] {
    const steps = REPLICAS.flatMap((replica) => this.#stepsAt(replica));
    for (const payment of this.#intents.keys()) {
      if (this.#money.hasExpired(payment)) continue;
      steps.push({ name: `payment ${payment} expires`, run: () => this.#money.expire(payment) });
    }
    if (this.#tasks.areOver) steps.push({ name: "everything works from now on", run: () => this.#heal() });
    return steps;
  }

  #stepsAt(replica: number): Step[] {
    const steps: Step[] = [];
    const { requests, checks } = this.#left;
    for (const [payment, intent] of this.#intents.entries()) {
      const at = `payment ${payment} at replica ${replica}`;
      const pay = () => {
        requests[payment] = (requests[payment] ?? 0) - 1;
        this.#request(replica, payment, intent);
      };
      if ((requests[payment] ?? 0) > 0) steps.push({ name: `a client sends ${at}`, run: pay });
      const check = () => this.#recheck(replica, payment);
      const canCheck = (checks[payment] ?? 0) > 0 && this.#journal.find(intent.key) !== undefined;
      if (canCheck) steps.push({ name: `the reconciler checks ${at}`, run: check });
    }
    const [first] = this.#intents;
    const steal = () => {
      this.#left.thefts--;
      if (first !== undefined) this.#request(replica, 0, { ...first, bodyHash: "another" });
    };
    if (this.#left.thefts > 0)
      steps.push({ name: `payment 0 with another body at replica ${replica}`, run: steal });
    const crash = () => {
      this.#left.crashes--;
      this.#tasks.kill(replica);
      this.#start(replica);
    };
    if (this.#left.crashes > 0) steps.push({ name: `replica ${replica} is killed and starts`, run: crash });
    return steps;
  }

  #heal(): void {
    this.#money.isHealthy = true;
    this.#money.lies = 0;
    this.#money.falseViews = 0;
    this.#journal.faults = 0;
    for (const payment of this.#intents.keys()) {
      // Only a chain shows what became of an authorization whose time is over.
      if (this.#hasChain) this.#money.expire(payment);
      this.#left.checks[payment] = LAST_CHECKS;
    }
  }

  #lastChecks(): Step[] {
    if (!this.#tasks.areOver) return [];
    const payment = this.#intents.findIndex(
      ({ key }, i) => (this.#left.checks[i] ?? 0) > 0 && this.#journal.find(key) !== undefined,
    );
    if (payment === -1) return [];
    const replica = REPLICAS[(this.#left.checks[payment] ?? 0) % 2] ?? 1;
    const run = () => this.#recheck(replica, payment);
    return [{ name: `the reconciler checks payment ${payment} at replica ${replica}`, run }];
  }

  #start(replica: number): void {
    const money = this.#money;
    const evidence: Partial<ChainEvidence> = {
      secondLookAfterMs: 0,
      covers: () => this.#hasChain,
      isRequired: () => this.#hasChain,
      isTransaction: () => true,
      fieldsOf: () => ({}),
      ownEvidence: () => undefined,
      look: (intent) => money.look(intent),
    };
    const facilitators: Partial<Facilitators> = {
      settle: (_request, name) => money.settle(name === "second" ? name : "first"),
      next: (_request, asked) => (asked.includes("second") ? undefined : "second"),
      noteSettlement: () => undefined,
    };
    this.#settlements[replica] = new Settlement({
      journal: this.#journal.forTasks(),
      evidence: evidence as ChainEvidence,
      facilitators: facilitators as Facilitators,
      confirmationTimeoutMs: 0,
      pendingLookMs: EARLY_LOOK_MS,
      clock: () => 0,
      elapsed: () => 0,
      logger: SILENT,
    });
  }

  #request(replica: number, payment: number, intent: PaymentIntent): void {
    const isTheft = intent.bodyHash !== this.#intents[payment]?.bodyHash;
    const wasBegunByClient = () => this.#journal.find(intent.key)?.bodyHash !== intent.bodyHash;
    this.#run(isTheft ? "theft" : "request", replica, payment, async (settlement) => {
      const outcome = await settlement.settle(intent, paidCall());
      if (isTheft && wasBegunByClient()) this.#broken ??= "a payment was taken for another body";
      return outcome;
    });
  }

  #recheck(replica: number, payment: number): void {
    const { checks } = this.#left;
    checks[payment] = (checks[payment] ?? 0) - 1;
    this.#run("check", replica, payment, async (settlement) => {
      const intent = this.#intents[payment];
      const record = intent && this.#journal.find(intent.key);
      if (record?.state === "failed") await settlement.recheckDecided(record);
      else if (record !== undefined && record.state !== "settled") return settlement.recheck(record);
      return undefined;
    });
  }

  #run(
    kind: string,
    replica: number,
    payment: number,
    work: (settlement: Settlement) => Promise<PaymentOutcome | undefined>,
  ): void {
    const settlement = this.#settlements[replica];
    if (settlement === undefined) throw new Error("no such replica");
    this.#tasks.run({ kind, replica, payment }, async () => {
      try {
        const outcome = await work(settlement);
        if (outcome !== undefined) this.#judge(payment, outcome);
      } catch (error) {
        const isRefusal = error instanceof GatewayError || String(error).includes("the store refuses");
        if (!isRefusal) this.#broken ??= String(error);
      }
    });
  }

  /** Holds what a client hears against the journal. */
  #judge(payment: number, outcome: PaymentOutcome): void {
    const intent = this.#intents[payment];
    const state = intent && this.#journal.find(intent.key)?.state;
    if (outcome.kind === "accepted" && !outcome.replayed && state !== "settled")
      this.#broken ??= `payment ${payment} was accepted while it was ${state}`;
    if (outcome.kind !== "failed") return;
    if (state === "failed") this.#refused.add(payment);
    else this.#broken ??= `payment ${payment} was refused while it was ${state}`;
  }
}

/**
 * Intent of a payment. Payments with one name, or one nonce, are for one purchase.
 * @param run tells the payments of several runs in one store apart
 */
export function intentOf(payment: number, purchase: Scenario["purchase"], run = 0): PaymentIntent {
  return paymentIntent(run * MAX_PAYMENTS + payment, {
    ...(purchase === "name" && { purchaseName: `purchase ${run}` }),
    ...(purchase === "nonce" && { oneTimeNonces: [oneTimeNonce(`nonce ${run}`)] }),
  });
}
