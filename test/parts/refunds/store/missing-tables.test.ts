import { join } from "node:path";
import { expect, test } from "vitest";
import { REFUNDS } from "../../../../src/parts/refunds/store/module.ts";
import { openDriver } from "../../../../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../../../../src/store/sqlite/sqlite-store.ts";
import { testFolder } from "../../../helpers/test-folder.ts";
import { encodeTestCall } from "../../../store/store-fixtures.ts";

test("A store that a build without refunds has made gets their table when it is opened", async () => {
  const path = join(await testFolder(), "jobgate.db");
  const open = () => openSqliteStore({ path, maxPending: 10, encodeJobCall: encodeTestCall, threads: false });
  await (await open()).close();
  const database = openDriver(path);
  database.exec("DROP TABLE refunds");
  database.close();
  const store = await open();
  expect(await store.of(REFUNDS).listRefunds({ limit: 1 })).toEqual([]);
  await store.close();
});
