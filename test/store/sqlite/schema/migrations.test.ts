import { copyFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openDriver } from "../../../../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../../../../src/store/sqlite/sqlite-store.ts";
import { testFolder } from "../../../helpers/test-folder.ts";
import { openTestStore } from "../../../helpers/test-store.ts";
import { TABLES } from "../../differential/tables.ts";
import { acceptId, encodeTestCall } from "../../store-fixtures.ts";
import { expectRefusal, UNRELEASED_VERSIONS } from "../../unreleased-store.ts";

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
    await expectRefusal(`sqlite:${old}`, version, version === UNRELEASED_VERSIONS[0] ? folder : undefined);
    expect(before.equals(await readFile(old))).toBe(true);
  }
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
  await expectRefusal(`sqlite:${restored}`, 17);
  expect(before.equals(await readFile(restored))).toBe(true);
});
