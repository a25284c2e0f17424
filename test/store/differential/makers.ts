import type { OperationName } from "../../../src/store/operations.ts";
import type { World } from "./world.ts";

/** Functions that make arguments of operations, with references to what a run has made. */
export type MakersOf<Name extends OperationName> = {
  readonly [N in Name]: (world: World) => readonly unknown[];
};
