import { MODULE_OPERATIONS } from "../../../src/store/modules/modules.ts";
import type { OperationName } from "../../../src/store/operations.ts";
import { newTransaction } from "../store-fixtures.ts";
import { INTAKE } from "./intake-inputs.ts";
import { LEDGERS } from "./ledger-inputs.ts";
import type { MakersOf } from "./makers.ts";
import { OF_PARTS } from "./part-inputs.ts";
import { PAYMENTS } from "./payment-inputs.ts";
import type { Step } from "./steps.ts";
import { WORK } from "./work-inputs.ts";
import { World } from "./world.ts";

const OF_CORE: MakersOf<OperationName> = { ...INTAKE, ...WORK, ...PAYMENTS, ...LEDGERS };
/** Every operation of a store has a maker. */
const MAKERS: MakersOf<string> = {
  ...OF_CORE,
  ...makersOf(MODULE_OPERATIONS.filter((name) => !(name in OF_CORE))),
};

function makersOf(names: readonly string[]): MakersOf<string> {
  return Object.fromEntries(
    names.map((name) => {
      const maker = OF_PARTS[name];
      if (maker === undefined) throw new Error(`the operation ${name} has no inputs here`);
      return [name, maker];
    }),
  );
}

/** How often operations come that make the states of others: any other operation has 3. */
const WEIGHTS: Readonly<Record<string, number>> = {
  accept: 8,
  acceptOnce: 10,
  beginPayment: 70,
  settlePayment: 16,
  failPayment: 14,
  closePayment: 6,
  claim: 32,
  ack: 16,
  fail: 10,
  retry: 8,
  release: 10,
  extend: 6,
  retryDeadLetter: 6,
  sendRefund: 9,
  endRefund: 8,
  decideRefund: 5,
  holdLock: 8,
  queueTransaction: 6,
  signTransactions: 10,
  finishTransactions: 8,
  endCallback: 8,
  pauseKey: 2,
  resumeKey: 4,
  prune: 10,
  adoptPayment: 6,
  shrink: 1,
  probe: 1,
};
const DEFAULT_WEIGHT = 3;
const WEIGHED = Object.keys(MAKERS).map((name) => [WEIGHTS[name] ?? DEFAULT_WEIGHT, name] as const);

/**
 * Operations that come alone: Postgres ends the leases that ran out once for the claims of a batch, gives those work in no
 * order, and replaces endpoints once.
 */
const ALONE: ReadonlySet<string> = new Set(["claim", "expireLeases", "useCallbackEndpoints"]);
/** Most operations that are asked for at once. */
const MOST_AT_ONCE = 6;
/** Moves of the clock. SQLite counts old payments once a second, so each move is a whole number of seconds. */
const TICKS_MS = [1_000, 1_000, 3_000, 10_000, 61_000, -2_000];
/** After such a time, or as much in hours, what ended before is old. */
const LEAPS_MS = [30 * 3_600_000, 8 * 86_400_000];
const HOUR_MS = 3_600_000;
const MOST_HOURS = 20;

interface Chosen {
  readonly name: Step["name"];
  readonly inputs: readonly (readonly unknown[])[];
}

/** Steps of a run, each chosen by what the steps before it have made. */
export class Generator {
  readonly #world: World;
  #number = 0;
  #hours = 0;
  /** Steps that follow the last one. */
  #next: Chosen[] = [];

  constructor(seed: number) {
    this.#world = new World(seed);
  }

  next(): Step {
    this.#number += 1;
    const { name, inputs } = this.#next.shift() ?? this.#choose();
    return { name, asked: inputs.map((input, index) => ({ place: `${this.#number}.${index}`, input })) };
  }

  /** @param outcomes with JobCalls by their places */
  learn(step: Step, outcomes: readonly unknown[]): void {
    this.#world.learn(step, outcomes);
  }

  #choose(): Chosen {
    const world = this.#world;
    const { choices } = world;
    const kind = choices.below(1_000);
    if (kind < 3) return this.#leap();
    if (kind < 120) return { name: "tick", inputs: [[choices.one(TICKS_MS)]] };
    const name = choices.weighted(WEIGHED);
    const isAlone = ALONE.has(name) || choices.percent(80);
    const count = isAlone ? 1 : 2 + choices.below(MOST_AT_ONCE - 1);
    return { name, inputs: Array.from({ length: count }, () => MAKERS[name]?.(world) ?? []) };
  }

  /**
   * Moves the clock far. Afterwards transactions are queued until all old ones are forgotten: the stores forget another
   * number with each.
   */
  #leap(): Chosen {
    const { choices } = this.#world;
    const isHour = this.#hours < MOST_HOURS && choices.percent(50);
    this.#hours = isHour ? this.#hours + 1 : 0;
    const isNeeded = !isHour && MAKERS.queueTransaction !== undefined;
    const unused = { ...newTransaction(0), network: "eip155:1", validBefore: undefined };
    const forget = { name: "queueTransaction", inputs: Array.from({ length: 60 }, () => [unused]) } as const;
    this.#next = isNeeded ? [forget] : [];
    return { name: "tick", inputs: [[isHour ? HOUR_MS : choices.one(LEAPS_MS)]] };
  }
}
