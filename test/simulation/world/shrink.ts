import type { Outcome } from "./world.ts";

/** More attempts than this take too long. */
export const MAX_ATTEMPTS = 200;

/**
 * Leaves out everything that a broken law does not need: clients and faults, in halves, quarters and so on.
 * @param again runs the same seed without some of what happened in it
 */
export async function shrink(
  broken: Outcome,
  again: (without: ReadonlySet<string>) => Promise<Outcome>,
): Promise<Outcome> {
  let smallest = broken;
  let without: ReadonlySet<string> = new Set();
  let attempts = 0;
  for (let size = Math.ceil(broken.faults.length / 2); size >= 1; ) {
    let isSmaller = false;
    for (let from = 0; from < smallest.faults.length && attempts < MAX_ATTEMPTS; ) {
      attempts++;
      const fewer = new Set([...without, ...smallest.faults.slice(from, from + size)]);
      const outcome = await again(fewer);
      if (lawOf(outcome) !== lawOf(broken)) from += size;
      else {
        isSmaller = true;
        smallest = outcome;
        without = fewer;
      }
    }
    if (size > 1) size = Math.ceil(size / 2);
    else if (!isSmaller || attempts >= MAX_ATTEMPTS) break;
  }
  return smallest;
}

/** The law without the names of whom it was broken for. */
function lawOf({ broken }: Outcome): string | undefined {
  return broken?.replaceAll(/[0-9]+/g, "");
}
