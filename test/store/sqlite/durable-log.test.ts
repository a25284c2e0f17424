import { copyFile, readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import { makeLogDurable } from "../../../src/store/sqlite/durable-log.ts";
import { testFolder } from "../../helpers/test-folder.ts";

test("Writing a log again changes nothing in it", async () => {
  const folder = await testFolder();
  const served = join(folder, "served.db");
  const database = openDriver(served);
  database.exec("PRAGMA journal_mode = wal; CREATE TABLE bodies (body BLOB)");
  // Longer than what is read at a time.
  database.exec("INSERT INTO bodies VALUES (randomblob(3000000)), (randomblob(3000000))");
  const killed = join(folder, "killed.db");
  for (const end of ["", "-wal"]) await copyFile(served + end, killed + end);
  const [before, { ino }] = [await readFile(`${killed}-wal`), await stat(`${killed}-wal`)];
  makeLogDurable(killed);
  expect((await readFile(`${killed}-wal`)).equals(before)).toBe(true);
  expect((await stat(`${killed}-wal`)).ino).toBe(ino);
  const again = openDriver(killed);
  expect(again.prepare("SELECT sum(length(body)) AS bytes FROM bodies").get([])).toMatchObject({
    bytes: 6_000_000,
  });
  again.close();
  database.close();
});

test("A database without a log gets none", async () => {
  const folder = await testFolder();
  makeLogDurable(join(folder, "jobgate.db"));
  expect(await readdir(folder)).toEqual([]);
});
