import { copyFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openDriver } from "../../../../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../../../../src/store/sqlite/sqlite-store.ts";
import { testFolder } from "../../../helpers/test-folder.ts";
import { openTestStore } from "../../../helpers/test-store.ts";
import { TABLES } from "../../differential/tables.ts";
import {
  expectRefusal,
  LACKS_TABLES,
  otherParts,
  UNRELEASED_VERSIONS,
  unreleased,
} from "../../refused-store.ts";
import { acceptId, claimCalls, encodeTestCall } from "../../store-fixtures.ts";

test("A new file has every table, the first released version, and gives pages back", async () => {
  const path = join(await testFolder(), "jobgate.db");
  const store = await openSqliteStore({ path, maxPending: 9, threads: false, encodeJobCall: encodeTestCall });
  await store.close();
  const file = openDriver(path);
  const tables = file
    .prepare<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    )
    .all([]);
  expect(tables.map(({ name }) => name)).toEqual([...TABLES, "probe"].sort());
  expect(file.prepare("PRAGMA user_version").get([])).toMatchObject({ user_version: 101 });
  // 2 is INCREMENTAL.
  expect(file.prepare("PRAGMA auto_vacuum").get([])).toMatchObject({ auto_vacuum: 2 });
  file.close();
});

test("A file of an unreleased jobgate is refused by every command, and stays as it is", async () => {
  const folder = await testFolder();
  const { store, path, stop } = await openTestStore({ encodeJobCall: encodeTestCall });
  await acceptId(store);
  await store.close();
  for (const version of UNRELEASED_VERSIONS) {
    const old = join(folder, `${version}.db`);
    await copyFile(path, old);
    const file = openDriver(old);
    file.exec(`PRAGMA user_version = ${version}`);
    file.close();
    const before = await readFile(old);
    // Every command checks the version in one place: one version is enough to test that each command does.
    const isFirst = version === UNRELEASED_VERSIONS[0];
    await expectRefusal(`sqlite:${old}`, unreleased(version), isFirst ? folder : undefined);
    expect(before.equals(await readFile(old))).toBe(true);
  }
  await stop();
});

test("A file that lacks tables of a part is refused by every command, and stays as it is", async () => {
  const { store, path, stop } = await openTestStore({ encodeJobCall: encodeTestCall });
  await store.close();
  const file = openDriver(path);
  file.exec("DROP TABLE channel_deposits; DROP TABLE channel_refunds");
  file.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get([]);
  file.close();
  const before = await readFile(path);
  await expectRefusal(`sqlite:${path}`, LACKS_TABLES, await testFolder());
  expect(before.equals(await readFile(path))).toBe(true);
  await stop();
});

test("A copy that an unreleased jobgate made is refused when it is restored, and stays as it is", async () => {
  const folder = await testFolder();
  const restored = join(folder, "jobgate.db");
  const { path, stop } = await openTestStore({ encodeJobCall: encodeTestCall });
  const served = openDriver(path);
  served.exec("PRAGMA user_version = 17");
  served.prepare("VACUUM INTO ?").run([restored]);
  served.close();
  await stop();
  const before = await readFile(restored);
  await expectRefusal(`sqlite:${restored}`, unreleased(17));
  expect(before.equals(await readFile(restored))).toBe(true);
});

test("A file with rows of a part that the build lacks is refused by every command, and stays as it is until they are deleted", async () => {
  const opened = await openTestStore({ encodeJobCall: encodeTestCall });
  const { store, path, openAgain } = opened;
  await acceptId(store);
  await store.close();
  const change = (sql: string) => {
    const file = openDriver(path);
    file.exec(sql);
    file.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get([]);
    file.close();
  };
  change(`CREATE TABLE loans (id INTEGER); CREATE TABLE "order" (id INTEGER); CREATE TABLE unused (id INTEGER);
    INSERT INTO loans VALUES (1); INSERT INTO "order" VALUES (1)`);
  const before = await readFile(path);
  await expectRefusal(`sqlite:${path}`, otherParts("loans, order"), await testFolder());
  expect(before.equals(await readFile(path))).toBe(true);

  // Litestream adds such a table.
  change(
    `DELETE FROM loans; DELETE FROM "order"; CREATE TABLE _seq (id INTEGER); INSERT INTO _seq VALUES (1)`,
  );
  const again = await openAgain();
  expect(await claimCalls(again)).toHaveLength(1);
  await again.close();
  await opened.stop();
});
