import * as storedParts from "../stored-parts.ts";
import type { AnyModule, SchemaDialect } from "./module.ts";
import { newestVersion } from "./schema-version.ts";

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
  PART_MODULES.flatMap(({ forgottenWithPayments = [] }) => forgottenWithPayments).map((rows) => ({
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

/**
 * Refuses a store that has only some tables of a part.
 * @param tables names of the tables of the store
 * @throws Error for a store of an unreleased jobgate, whose part kept less
 */
export function refuseIncompleteParts(
  tables: Iterable<string>,
  version: number,
  migrations: readonly string[],
  dialect: SchemaDialect,
): void {
  // Migrations bring the tables of an older jobgate up to date, and a newer jobgate may need fewer tables.
  if (version !== newestVersion(migrations)) return;
  const found = new Set(tables);
  for (const { schema } of PART_MODULES) {
    if (schema === undefined || !found.has(schema.table)) continue;
    const lacking = tablesIn(schema.sql(dialect)).filter((name) => !found.has(name));
    if (lacking.length === 0) continue;
    throw new Error(
      `an unreleased jobgate wrote this store: it has the table ${schema.table}, but lacks ${lacking.join(" and ")}: start with a new store`,
    );
  }
}

function tablesIn(sql: string): string[] {
  return Array.from(sql.matchAll(TABLE_NAME), ([, name = ""]) => name);
}

/** Name of a table in the SQL that makes, changes or drops the table. */
const TABLE_NAME = / TABLE (?:IF EXISTS )?(?:\w+\.)?(\w+)/g;

/**
 * Returns the SQL that selects the names of the tables that have rows and belong to no part of this build; undefined if
 * each table belongs to the build. A newer jobgate can have more tables, and notes in the store which versions may use it.
 * @param tables names of the tables of the store. Names of jobgate begin with a letter; some tools add other names
 */
export function rowsOfOtherParts(
  tables: Iterable<string>,
  version: number,
  migrations: readonly string[],
  dialect: SchemaDialect,
): string | undefined {
  if (version > newestVersion(migrations)) return undefined;
  const sql = [...migrations, ...PART_MODULES.map(({ schema }) => schema?.sql(dialect))].join("");
  const own = new Set(tablesIn(sql));
  const others = [...tables].filter((name) => /^[a-z]\w*$/.test(name) && !own.has(name));
  if (others.length === 0) return undefined;
  return others
    .map((name) => [`${dialect.schema}${name}`, `${dialect.schema}"${name}"`])
    .map(([name, table]) => `SELECT '${name}' AS name WHERE EXISTS (SELECT 1 FROM ${table})`)
    .join(" UNION ALL ");
}

/** @throws Error when there are rows of parts that this build lacks, because they can record that money has moved */
export function refuseOtherParts(tables: readonly { readonly name: string }[]): void {
  if (tables.length === 0) return;
  const names = tables.map(({ name }) => name).join(", ");
  throw new Error(
    `this build lacks the parts of jobgate that wrote the rows of ${names}: start a build with these parts, or delete the rows if you do not need them`,
  );
}
