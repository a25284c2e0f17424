import { systemClock } from "../../core/clock.ts";
import type { Part } from "../../part.ts";
import { Pruner } from "./pruner.ts";

/** Forgets what is older than `[store.retention]` says. */
export const part: Part = {
  load:
    () =>
    ({ store, config, logger }) =>
      new Pruner({ store, retention: config.store.retention, clock: systemClock, logger }),
};
