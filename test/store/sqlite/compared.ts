import { openToRead } from "../../../src/store/sqlite/driver.ts";
import { inspectSqlite } from "../../../src/store/sqlite/inspect.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import type { Compared } from "../differential/side.ts";
import type { Row } from "../differential/tables.ts";
import { encodeTestCall } from "../store-fixtures.ts";

/** SQLite, which runs operations that are asked for at once in few statements. */
export const SQLITE: Compared = { name: "SQLite", atOnce: true, open };

/** SQLite, which is asked for each operation after the other. */
export const SQLITE_IN_ORDER: Compared = { name: "SQLite, one by one", atOnce: false, open };

async function open(options: Parameters<Compared["open"]>[0]): ReturnType<Compared["open"]> {
  const { store, path, stop } = await openTestStore({ encodeJobCall: encodeTestCall, ...options });
  const database = openToRead(path, "mode=ro");
  return {
    store,
    rows: async (table) => database.prepare<Row>(`SELECT * FROM ${table}`).all([]),
    check: () => checkFile(path),
    async dispose() {
      database.close();
      await stop();
    },
  };
}

/** Checks a database file as `jobgate store check` does. */
export async function checkFile(path: string): ReturnType<Awaited<ReturnType<Compared["open"]>>["check"]> {
  const inspection = inspectSqlite(path);
  try {
    return await inspection.check();
  } finally {
    await inspection.close();
  }
}
