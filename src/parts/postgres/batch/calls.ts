import { type LeaseStep, LeaseSteps } from "../../../store/machine/leases.ts";
import type { Sql } from "../sql.ts";
import type { BatchContext, BatchPart, Entry } from "./batch.ts";
import type { PostgresCallRows } from "./call-rows.ts";
import type { PostgresEffects } from "./effects.ts";

type CallEntry = Entry<LeaseStep>;

const CHANGES_NO_END: ReadonlySet<string> = new Set(["extend", "appendResult"]);

/** Operations on a lease, and writing operations on dead letters. */
export class CallsPart implements BatchPart {
  readonly callIds = 0;
  readonly #entries: readonly CallEntry[];
  readonly #rows: PostgresCallRows;

  constructor(entries: readonly CallEntry[], rows: PostgresCallRows) {
    this.#entries = entries;
    this.#rows = rows;
  }

  async load(sql: Sql, effects: PostgresEffects): Promise<void> {
    if (this.#entries.length === 0) return;
    effects.willChange();
    const ending = this.#entries.filter(({ name }) => !CHANGES_NO_END.has(name));
    effects.willNeedPayments(callIdsOf(ending));
    effects.willEnd(callIdsOf(ending));
    effects.keys.awaitEnds();
    await this.#rows.lock(sql, callIdsOf(this.#entries));
    effects.keys.willEnd(this.#rows.locked);
  }

  async write({ sql, now, capacity, effects }: BatchContext): Promise<void> {
    const steps = new LeaseSteps(this.#rows, capacity, effects);
    for (const { name, input, decide } of this.#entries as readonly AnyEntry[])
      decide((steps[name] as AnyStep).call(steps, now, ...input));
    await this.#rows.write(sql, now);
  }
}

type AnyStep = (now: number, ...input: readonly unknown[]) => unknown;
type AnyEntry = {
  readonly name: CallEntry["name"];
  readonly input: readonly unknown[];
  decide(outcome: unknown): void;
};

function callIdsOf(entries: readonly CallEntry[]): number[] {
  return entries.map(({ input: [call] }) => (typeof call === "number" ? call : call.callId));
}
