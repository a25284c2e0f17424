import * as z from "zod";
import { ConfigTable } from "../../config/config-table.ts";
import { trueOrFalse } from "../../config/value-types.ts";

const a2a = z.object({ enabled: trueOrFalse().default(false) });

/** `[a2a]`. Undefined while `enabled` is false. */
export const a2aTable = ConfigTable.of({
  keys: { a2a: a2a.optional() },
  check(keys, { tables, place }) {
    if (keys.a2a !== undefined && tables.x402 === undefined)
      place.at("a2a").warn("is not used, because there is no [x402]");
  },
  complete: ({ a2a: table }): { readonly enabled: true } | undefined =>
    table?.enabled ? { enabled: true } : undefined,
});
