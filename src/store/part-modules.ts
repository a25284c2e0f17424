import * as storedParts from "../stored-parts.ts";
import type { AnyModule, SchemaDialect } from "./module.ts";

/** The store modules of the parts of this build. */
export const PART_MODULES: readonly AnyModule[] = Object.values(storedParts);

/** SQL condition that no module keeps a row of a table. Begins with AND; empty if no module keeps rows. */
export function nobodyKeeps(table: string, schema: string, row = table): string {
  return PART_MODULES.flatMap(({ keeps = [] }) => keeps)
    .filter((kept) => kept.table === table)
    .map((kept) => ` AND NOT (${kept.while({ schema }, row)})`)
    .join("");
}

/** Rows of modules that are deleted with payments: their tables, and the SQL condition of the deleted rows. */
export const rowsOfPayments = (schema: string, row: string) =>
  PART_MODULES.flatMap(({ forgottenWithPayments }) => forgottenWithPayments ?? []).map((rows) => ({
    table: rows.table,
    condition: rows.if({ schema }, row),
  }));

/**
 * Returns the SQL that creates the tables of modules that a store lacks because a build without the parts created it.
 * @param tables names of the tables of the store
 */
export function missingTables(tables: ReadonlySet<string>, dialect: SchemaDialect): string[] {
  return PART_MODULES.flatMap(({ schema }) =>
    schema === undefined || tables.has(schema.table) ? [] : schema.sql(dialect),
  );
}
