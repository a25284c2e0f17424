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
  expect(newestVersion(MIGRATIONS)).toBe(103);
  expect(missingMigrations(MIGRATIONS, 0)).toEqual(MIGRATIONS);
  expect(missingMigrations(MIGRATIONS, 101)).toEqual(["second", "third"]);
  expect(missingMigrations(MIGRATIONS, 102)).toEqual(["third"]);
  expect(missingMigrations(MIGRATIONS, 103)).toEqual([]);
});

test("A version above the newest is refused unless its store can be used from an older one, and so is a version that an unreleased jobgate wrote", () => {
  expect(() => refuseNewer(MIGRATIONS, 104)).toThrow(
    "a newer jobgate wrote this store (schema version 104, this jobgate knows 103): start that one",
  );
  expect(() => refuseNewer(MIGRATIONS, 105, 104)).toThrow(/schema version 105, this jobgate knows 103/);
  refuseNewer(MIGRATIONS, 105, 103);
  expect(() => requireNewest(MIGRATIONS, 104, "a.db")).toThrow(/Use the jobgate that serves it$/);
  expect(() => requireNewest(MIGRATIONS, 102, "a.db")).toThrow(/or serve it with this jobgate first$/);
  expect(() => refuseUnreleased(100)).toThrow(
    "an unreleased jobgate wrote this store (schema version 100): start with a new store",
  );
  for (const version of [0, 101, 103]) {
    refuseNewer(MIGRATIONS, version);
    refuseUnreleased(version);
  }
});
