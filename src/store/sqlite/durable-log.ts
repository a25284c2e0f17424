import { closeSync, fsyncSync, openSync, readSync, writeSync } from "node:fs";

const CHUNK_BYTES = 1024 * 1024;

/**
 * Rewrites a write-ahead log unchanged, and syncs it. After a failed sync, the system's cache may show changes that no later
 * sync writes. A process that then starts would treat these changes as committed, and the next power loss would lose its own
 * commits and corrupt the database. Only the database's owner may call this, before the database is opened.
 * @throws Error when the write or the sync fails
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
