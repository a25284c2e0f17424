import { MODULE_STEPS, type StepName } from "../../../store/modules/modules.ts";
import type { Sql } from "../sql.ts";
import type { BatchContext, BatchPart, Entry } from "./batch.ts";
import type { PostgresEffects } from "./effects.ts";

const STEPS = new Map(MODULE_STEPS);

/** Operations of modules. */
export class StepsPart implements BatchPart {
  readonly callIds = 0;
  readonly #entries;

  constructor(entries: readonly Entry<StepName>[]) {
    this.#entries = entries.map(({ name, input, decide }) => {
      const step = STEPS.get(name);
      if (step === undefined) throw new Error(`no module has the operation ${name}`);
      return { step, input: input as readonly unknown[], decide: decide as (outcome: unknown) => void };
    });
  }

  async load(sql: Sql, effects: PostgresEffects): Promise<void> {
    if (this.#entries.length === 0) return;
    effects.willChange();
    for (const { step, input } of this.#entries) {
      for (const key of step.keys?.(...input) ?? []) effects.rows.willNeed(key);
      effects.willNeedPayments(step.callIds?.(...input) ?? []);
      effects.willEnd(step.reactsFor?.(...input) ?? []);
      effects.keys.willChange(step.orderKeys?.(...input) ?? []);
    }
    await effects.locks.keep(
      sql,
      this.#entries.flatMap(({ step, input }) => step.locks?.(...input) ?? []),
    );
  }

  write({ now, effects }: BatchContext): Promise<void> {
    for (const { step, input, decide } of this.#entries) decide(step.run(effects, now, ...input));
    return Promise.resolve();
  }
}

/** Takes and renews locks. */
export function locksPart(entries: readonly Entry<"holdLock">[]): BatchPart {
  // Locked in the same order in all batches, so that no two wait for each other.
  const holds = entries.toSorted(({ input: [a] }, { input: [b] }) => (a < b ? -1 : 1));
  return {
    callIds: 0,
    async load(sql, { locks }) {
      await Promise.all(
        holds.map(async ({ input, decide }) => {
          decide(await locks.hold(sql, ...input));
        }),
      );
    },
    write: () => Promise.resolve(),
  };
}
