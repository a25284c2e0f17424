import { systemClock } from "../../core/clock.ts";
import type { Part } from "../../part.ts";
import { retentionTable } from "./config.ts";

/** Forgets what is older than `[store.retention]` says. */
export const part: Part = {
  table: retentionTable,
  async load(config) {
    const retention = retentionTable.in(config);
    if (retention === undefined) return undefined;
    const { Pruner } = await import("./pruner.ts");
    return ({ store, logger }) => new Pruner({ store, retention, clock: systemClock, logger });
  },
};
