import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { encodeJobCall } from "../../src/delivery/job-call-codec.ts";
import { openDatabase } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore, type SqliteStoreOptions } from "../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";

let empty: Buffer | undefined;

/** Writes a database that has jobgate's tables and no rows. To make the tables takes longer than to open a store. */
export function writeEmptyDatabase(path: string): void {
  empty ??= makeEmptyDatabase();
  writeFileSync(path, empty);
}

function makeEmptyDatabase(): Buffer {
  const folder = mkdtempSync(join(tmpdir(), "jobgate-tables-"));
  try {
    const path = join(folder, "jobgate.db");
    const database = openDatabase(path, { isNew: true });
    database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get([]);
    database.close();
    return readFileSync(path);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A SQLite store in a new folder, without threads: it opens ten times faster. */
export interface TestStore {
  readonly store: Store;
  readonly path: string;
  /** Opens the file again, after its store was closed or beside it. The caller closes that store. */
  openAgain(): Promise<Store>;
  /** Closes the store and removes the folder. */
  stop(): Promise<void>;
}

export async function openTestStore(
  options: Omit<Partial<SqliteStoreOptions>, "path" | "threads"> = {},
): Promise<TestStore> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-store-"));
  const path = join(folder, "jobgate.db");
  writeEmptyDatabase(path);
  const openAgain = () =>
    openSqliteStore({ path, maxPending: 100_000, encodeJobCall, ...options, threads: false });
  const store = await openAgain();
  return {
    store,
    path,
    openAgain,
    async stop() {
      await store.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
