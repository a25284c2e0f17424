import type { Refund } from "../../../src/parts/refunds/store/ledger.ts";
import { REFUNDS } from "../../../src/parts/refunds/store/module.ts";
import type { Store } from "../../../src/store/store.ts";
import type { Accounts } from "./accounts.ts";
import { PRICE } from "./laws.ts";
import type { Replica } from "./replica.ts";
import type { Simulation } from "./simulation.ts";

const LOOK_MS = 4_000;
/** Refunds that the operator looks at. */
const PAGE = 20;
const FUNDS = { wei: 10n ** 18n, tokens: 1_000n * PRICE };

/** An operator who decides about refunds, retries dead letters, and sends accounts what they are short of. */
export class Operator {
  readonly #simulation: Simulation;
  readonly #replicas: readonly Replica[];
  readonly #accounts: Accounts;

  constructor(simulation: Simulation, replicas: readonly Replica[], accounts: Accounts) {
    this.#simulation = simulation;
    this.#replicas = replicas;
    this.#accounts = accounts;
  }

  start(): void {
    const run = this.#simulation;
    run.at(LOOK_MS, run.world, () => {
      if (run.isHealed || run.random("the operator sends funds") < 0.1)
        for (const address of this.#accounts.addresses) this.#fund(address);
      const { running } = run.pick("the operator asks", this.#replicas);
      if (running !== undefined) run.at(1, running.process, () => void this.#look(running.store));
      this.start();
    });
  }

  #fund(address: string): void {
    const { wei = 0n, tokens = 0n } = this.#accounts.at(address, Number.POSITIVE_INFINITY) ?? {};
    if (wei < FUNDS.wei / 2n) this.#accounts.give(address, { wei: FUNDS.wei });
    if (tokens < FUNDS.tokens / 2n) this.#accounts.give(address, { tokens: FUNDS.tokens });
  }

  async #look(store: Store): Promise<void> {
    try {
      for (const refund of await store.of(REFUNDS).listRefunds({ limit: PAGE }))
        await this.#decide(store, refund);
    } catch {
      // The next look may find more.
    }
  }

  async #approve(store: Store, callId: number): Promise<void> {
    const decision = { as: "approved", by: "another operator", note: "looked at" } as const;
    await store
      .of(REFUNDS)
      .decideRefund(callId, decision)
      .catch(() => undefined);
  }

  async #decide(store: Store, { callId, state, isApproved, payer }: Refund): Promise<void> {
    const run = this.#simulation;
    const isWaiting = state === "refund_failed" || (state === "owed" && !isApproved);
    if (state === "owed" && run.fault("the token refuses transfers to a payer", 0.05))
      this.#accounts.refuse(payer);
    if (state === "owed" && run.fault("two operators decide at once", 0.1)) {
      const other = run.pick("the other operator asks", this.#replicas).running;
      if (other !== undefined) run.at(0, other.process, () => void this.#approve(other.store, callId));
      const outcome = await store.retryDeadLetter(callId);
      run.say(`the operator retries JobCall ${callId} as another one approves its refund: ${outcome}`);
    } else if (run.fault("the operator retries a dead letter", 0.03)) {
      const outcome = await store.retryDeadLetter(callId);
      run.say(`the operator retries JobCall ${callId}, whose refund was ${state}: ${outcome}`);
    } else if (isWaiting || run.fault("the operator changes a decision", state === "sending" ? 0.3 : 0.05)) {
      const isDeclined = !run.isHealed && run.random("the operator declines") < 0.3;
      const as = isDeclined ? "declined" : "approved";
      const { kind } = await store
        .of(REFUNDS)
        .decideRefund(callId, { as, by: "operator", note: "looked at" });
      run.say(`the operator has ${as} the refund of JobCall ${callId}, which was ${state}: ${kind}`);
    }
  }
}
