import { PART_MODULES } from "../../../src/store/part-modules.ts";
import type { Store } from "../../../src/store/store.ts";
import type { World } from "./world.ts";

/** Functions that make arguments of operations, with references to what a run has made. */
export type MakersOf<Name extends string> = {
  readonly [N in Name]: (world: World) => readonly unknown[];
};

/** Returns all operations of a store, those of parts included. */
export function operationsOf(
  store: Store,
): Readonly<Record<string, (...input: unknown[]) => Promise<unknown>>> {
  return Object.assign({}, store, ...PART_MODULES.map((module) => store.of(module)));
}
