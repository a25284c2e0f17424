import { closeSync, fsyncSync, openSync, readSync, writeSync } from "node:fs";

const CHUNK_BYTES = 1024 * 1024;

/**
 * Writes a write-ahead log again as it is, and syncs it. After a sync that failed, the system's cache may show changes that
 * no later sync writes, and a process that starts then takes them for committed: what it commits after them would be lost,
 * and the database broken, by the next power loss. Only for the database's owner, before the database is opened.
 * @throws Error when the disk does not take it
 */
export function makeLogDurable(path: string): void {
  let log: number;
  try {
    log = openSync(`${path}-wal`, "r+");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  try {
    const chunk = Buffer.alloc(CHUNK_BYTES);
    let at = 0;
    for (let bytes = 1; bytes > 0; at += bytes) {
      bytes = readSync(log, chunk, 0, CHUNK_BYTES, at);
      writeSync(log, chunk, 0, bytes, at);
    }
    fsyncSync(log);
  } finally {
    closeSync(log);
  }
}
