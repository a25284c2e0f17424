import { BOOKS } from "./books.ts";
import { CALLBACKS } from "./callbacks.ts";
import type { Change, Effect, Known, Reactions } from "./changes.ts";
import { METERED } from "./metered.ts";
import { REFUNDS } from "./refunds.ts";

const REACTIONS: readonly Reactions[] = [METERED, REFUNDS, BOOKS, CALLBACKS];

/** Decides what else a commit writes because of a change. */
export function react(change: Change, known: Known): Effect[] {
  return REACTIONS.flatMap((reactions) => {
    const reaction = reactions[change.kind] as ((change: Change, known: Known) => Effect[]) | undefined;
    return reaction?.(change, known) ?? [];
  });
}
