import { expect, test } from "vitest";
import {
  missingMigrations,
  newestVersion,
  refuseNewer,
  refuseUnreleased,
  requireNewest,
} from "../../src/store/schema-version.ts";

const MIGRATIONS = ["tables", "second", "third"];

test("A new store lacks all migrations, and an older store lacks the migrations since its version", () => {
  expect(newestVersion(MIGRATIONS)).toBe(102);
  expect(missingMigrations(MIGRATIONS, 0)).toEqual(MIGRATIONS);
  expect(missingMigrations(MIGRATIONS, 100)).toEqual(["second", "third"]);
  expect(missingMigrations(MIGRATIONS, 101)).toEqual(["third"]);
  expect(missingMigrations(MIGRATIONS, 102)).toEqual([]);
});

test("A version above the newest is refused, and so is a version that an unreleased jobgate wrote", () => {
  expect(() => refuseNewer(MIGRATIONS, 103)).toThrow(
    "a newer jobgate wrote this store (schema version 103, this jobgate knows 102): start that one",
  );
  expect(() => requireNewest(MIGRATIONS, 103, "a.db")).toThrow(/Use the jobgate that serves it$/);
  expect(() => requireNewest(MIGRATIONS, 101, "a.db")).toThrow(/or serve it with this jobgate first$/);
  expect(() => refuseUnreleased(99)).toThrow(
    "an unreleased jobgate wrote this store (schema version 99): start with a new store",
  );
  for (const version of [0, 100, 102]) {
    refuseNewer(MIGRATIONS, version);
    refuseUnreleased(version);
  }
});
