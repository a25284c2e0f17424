import { ConfigTable } from "../../config/config-table.ts";
import { trueOrFalse } from "../../config/value-types.ts";

/** Key of `[operator]`: whether operators see bodies and results. */
export const bodiesTable = ConfigTable.of({
  in: ["operator"],
  keys: { showBodies: trueOrFalse().default(false) },
  complete: ({ showBodies }): boolean => showBodies,
});
