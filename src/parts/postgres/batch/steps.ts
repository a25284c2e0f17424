import { MODULE_STEPS, type StepName } from "../../../store/modules/modules.ts";
import type { Sql } from "../sql.ts";
import type { BatchContext, BatchPart, Entry } from "./batch.ts";
import { PostgresRows } from "./module-rows.ts";

const STEPS = new Map(MODULE_STEPS);

/** Operations of modules. */
export class StepsPart implements BatchPart {
  readonly callIds = 0;
  readonly #entries;
  readonly #rows = new PostgresRows();

  constructor(entries: readonly Entry<StepName>[]) {
    this.#entries = entries.map(({ name, input, decide }) => {
      const step = STEPS.get(name);
      if (step === undefined) throw new Error(`no module has the operation ${name}`);
      return { step, input: input as readonly unknown[], decide: decide as (outcome: unknown) => void };
    });
  }

  load(sql: Sql): Promise<void> {
    for (const { step, input } of this.#entries)
      for (const key of step.keys(...input)) this.#rows.willNeed(key);
    return this.#rows.load(sql);
  }

  write({ sql, now }: BatchContext): Promise<void> {
    for (const { step, input, decide } of this.#entries) decide(step.run(this.#rows, now, ...input));
    return this.#rows.write(sql);
  }
}
