import { BOOKS } from "./books.ts";
import type { Change, Effect, Known, Reactions } from "./changes.ts";

const REACTIONS: readonly Reactions[] = [BOOKS];

/** Decides what else a commit writes because of a change. */
export function react(change: Change, known: Known): Effect[] {
  return REACTIONS.flatMap((reactions) => {
    const reaction = reactions[change.kind] as ((change: Change, known: Known) => Effect[]) | undefined;
    return reaction?.(change, known) ?? [];
  });
}
