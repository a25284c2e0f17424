import { copyFile, readFile, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import type { JobCall } from "../../../src/core/job-call.ts";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { testFolder } from "../../helpers/test-folder.ts";
import { acceptId } from "../store-fixtures.ts";
import { runCrashRounds } from "./crash-rounds.ts";
import { openInTempFolder } from "./open-in-temp-folder.ts";

test("After kill -9 everything acknowledged is stored, and nothing is leased that was not claimed", async () => {
  await runCrashRounds(1);
});

describe("A write torn by a crash", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await testFolder();
  });

  /** Files that a crash leaves when the log ends after `bytes`: the old database, and the log up to there. */
  async function readyAfterTear(database: string, log: Buffer, bytes: number): Promise<number> {
    const path = join(folder, `torn-${bytes}.db`);
    await copyFile(database, path);
    await writeFile(`${path}-wal`, log);
    await truncate(`${path}-wal`, bytes);
    const encodeJobCall = ({ body }: JobCall) => body;
    const store = await openSqliteStore({ path, maxPending: 1000, threads: false, encodeJobCall });
    const { calls } = await store.totals();
    await store.close();
    return calls.ready;
  }

  test("A batch torn at any byte is gone as a whole, and all earlier ones are complete", async () => {
    const { store, path, dispose } = await openInTempFolder({ maxPending: 1000, clock: systemClock });
    try {
      // Keeps the log from starting again at its beginning.
      const reader = openDriver(path);
      reader.exec("BEGIN");
      reader.prepare("SELECT count(*) FROM job_calls").get([]);
      for (let i = 0; i < 5; i += 1) await acceptId(store);
      const database = join(folder, "before.db");
      await copyFile(path, database);
      const { size } = await stat(`${path}-wal`);
      await Promise.all(Array.from({ length: 20 }, () => acceptId(store)));
      const log = await readFile(`${path}-wal`);
      reader.exec("ROLLBACK");
      reader.close();

      expect(log.byteLength).toBeGreaterThan(size);
      for (const torn of [size, size + 1, Math.floor((size + log.byteLength) / 2), log.byteLength - 1]) {
        expect(await readyAfterTear(database, log, torn)).toBe(5);
      }
      expect(await readyAfterTear(database, log, log.byteLength)).toBe(25);
      const garbage = Buffer.concat([log, log.subarray(40, 4000), Buffer.alloc(5000, 0xa5)]);
      expect(await readyAfterTear(database, garbage, garbage.byteLength)).toBe(25);
    } finally {
      await dispose();
    }
  });
});
