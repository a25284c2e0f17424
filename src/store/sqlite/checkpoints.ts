import type { Database } from "./driver.ts";

const CHECKPOINT_INTERVAL_MS = 100;

/**
 * Copies the write-ahead log into the database file, on another connection than the one that writes: only
 * little is left to copy when the log reaches its bound and a commit has to do it.
 * @returns a function that stops it
 */
export function startCheckpoints(database: Database): () => void {
  const readVersion = database.prepare<{ data_version: number }>("PRAGMA data_version");
  let checkpointedVersion: number | undefined;
  const timer = setInterval(() => {
    try {
      const version = readVersion.get([])?.data_version;
      if (version === checkpointedVersion) return;
      database.prepare("PRAGMA wal_checkpoint(PASSIVE)").all([]);
      checkpointedVersion = version;
    } catch {
      // Nothing is lost by it: the log keeps what was not copied, and the next round copies it. That a disk is
      // full is told by the next write.
    }
  }, CHECKPOINT_INTERVAL_MS);
  return () => clearInterval(timer);
}
