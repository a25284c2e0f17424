import type { Movement } from "../contract/books.ts";
import { type Lookup, parameters } from "../list-dialect.ts";
import { BOOKS as REACTIONS } from "../machine/books.ts";
import type { StoreModule } from "../module.ts";
import { MOVEMENT_COLUMN_LIST, type MovementRow, toMovement } from "../movement-row.ts";

/** Every movement of money. */
export const BOOKS = {
  on: REACTIONS,

  lookups: {
    *listMovements({ dialect }, { after, until, limit }): Lookup<Movement[]> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT id, ${MOVEMENT_COLUMN_LIST} FROM ${dialect.schema}movements
        WHERE (at, id) > (${add(after.at)}, ${add(after.id)}) AND at < ${add(until)} ORDER BY at, id LIMIT ${add(limit)}`;
      return ((yield { name: "list_movements", sql, values }) as MovementRow[]).map(toMovement);
    },
  },
} satisfies StoreModule;
