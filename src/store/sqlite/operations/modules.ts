import type { ListDialect, Lookup } from "../../list-dialect.ts";
import type { Commit } from "../../module.ts";
import { type LookupName, MODULE_LOOKUPS, MODULE_STEPS, type StepName } from "../../modules/modules.ts";
import type { Database, Statement } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";

/** Digits of the lower part of an amount. Amounts go up to 2^64 - 1, and SQLite's sums end at 2^63 - 1. */
const LOW_DIGITS = 9;

const highPart = (digits: string) =>
  `CAST(substr(${digits}, 1, max(0, length(${digits}) - ${LOW_DIGITS})) AS INTEGER)`;
const lowPart = (digits: string) => `CAST(substr(${digits}, -${LOW_DIGITS}) AS INTEGER)`;

export const DIALECT: ListDialect = {
  schema: "",
  parameter: (number) => `?${number}`,
  now: (parameter) => parameter,
  indexedBy: (index) => ` INDEXED BY ${index}`,
  within: ({ keys, id }, { before, from }) =>
    [
      ...keys.map(({ column, value }) => `${column} = ${value}`),
      `${id} < ${before}`,
      `${id} >= ${from}`,
    ].join(" AND "),
  newestFirst: ({ id }) => `${id} DESC`,
  ofEach: (table, selected) =>
    `CROSS JOIN ${table} ON ${table}.rowid IN (SELECT rowid FROM ${table} WHERE ${selected})`,
  // Sums in two parts, because numbers end at 2^63 - 1.
  sumOf: (column) => `printf('%d%09d', sum(${highPart(column)}) + sum(${lowPart(column)}) / 1000000000,
      sum(${lowPart(column)}) % 1000000000)`,
  hourAmount: "printf('%d%09d', high + low / 1000000000, low % 1000000000)",
  jsonObject: "json_object",
  contains: (bytes, part) => `instr(${bytes}, ${part}) > 0`,
};

/** Operations of modules on the connection that writes. */
export function stepOperations(commit: Commit): OperationTable<StepName> {
  const operations = MODULE_STEPS.map(([name, step]) => [
    name,
    (now: number, ...input: readonly unknown[]) => step.run(commit, now, ...input),
  ]);
  return Object.fromEntries(operations) as OperationTable<StepName>;
}

/** Operations of modules that only read. A lookup is one transaction, and so sees one state of the database. */
export function lookupOperations(database: Database): OperationTable<LookupName> {
  const prepared = new Map<string, Statement<unknown>>();

  function statementOf(sql: string, name: string | undefined): Statement<unknown> {
    const statement = (name === undefined ? undefined : prepared.get(name)) ?? database.prepare(sql);
    if (name !== undefined) prepared.set(name, statement);
    return statement;
  }

  function run(lookup: Lookup<unknown>): unknown {
    let step = lookup.next([]);
    while (!step.done) {
      const { name, sql, values } = step.value;
      step = lookup.next(statementOf(sql, name).all(values).map(withBytes));
    }
    return step.value;
  }

  const operations = MODULE_LOOKUPS.map(([name, lookup]) => [
    name,
    (now: number, ...input: readonly unknown[]) =>
      run(lookup({ dialect: DIALECT, now: () => now }, ...input)),
  ]);
  return Object.fromEntries(operations) as OperationTable<LookupName>;
}

/** libsql returns the BLOBs of several rows as bare ArrayBuffers. */
export function withBytes(row: unknown): unknown {
  const values = row as Record<string, unknown>;
  for (const column in values) {
    const value = values[column];
    if (value instanceof ArrayBuffer) values[column] = new Uint8Array(value);
  }
  return values;
}
