import { expect, test } from "vitest";
import { refuseOtherParts, rowsOfOtherParts } from "../../src/store/part-modules.ts";
import { MIGRATIONS, SCHEMA } from "../../src/store/sqlite/schema/migrations.ts";
import { TABLES } from "./differential/tables.ts";
import { otherParts } from "./refused-store.ts";

const rowsOf = (tables: readonly string[], { version = 101, migrations = MIGRATIONS } = {}) =>
  rowsOfOtherParts(tables, version, migrations, SCHEMA);

test("The tables of the build are known, and so are tables that its migrations have dropped", () => {
  expect(rowsOf([...TABLES, "probe"])).toBeUndefined();
  const dropped = { version: 102, migrations: [...MIGRATIONS, "DROP TABLE IF EXISTS jobgate.loans;"] };
  expect(rowsOf(["payments", "loans"])).toBe(`SELECT 'loans' AS name WHERE EXISTS (SELECT 1 FROM "loans")`);
  expect(rowsOf(["payments", "loans"], dropped)).toBeUndefined();
});

test("Other tables of a newer jobgate, and tables of tools, are accepted with any rows", () => {
  expect(rowsOf(["loans"], { version: 102 })).toBeUndefined();
  expect(rowsOf(["_litestream_seq"])).toBeUndefined();
});

test("Rows of other tables are refused with the names of the tables", () => {
  refuseOtherParts([]);
  expect(() => refuseOtherParts([{ name: "loans" }, { name: "debts" }])).toThrow(otherParts("loans, debts"));
});
