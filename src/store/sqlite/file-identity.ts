import { readFileSync, statSync } from "node:fs";
import { StoreInUseError } from "../store.ts";

/** Identity of a file, independent of its names. */
interface FileIdentity {
  readonly device: string;
  readonly inode: string;
  /** Number of the file's names in all folders. */
  readonly links: number;
}

export function identityOf(path: string): FileIdentity | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  if (!found?.isFile()) return undefined;
  return { device: String(found.dev), inode: String(found.ino), links: Number(found.nlink) };
}

/**
 * Refuses a database with a second name (a hard link), because the log of its commits is beside the name under which they
 * were made.
 * @param served inode of the file that was served under this name
 * @throws StoreInUseError with the pid of the process that has it open under the other name, if the system provides the pid
 */
export function requireOneName(path: string, served: string | undefined): void {
  const found = identityOf(path);
  if (found === undefined || found.links === 1 || found.inode === served) return;
  const names = `${path} is one of ${found.links} names (hard links) of one file`;
  const pid = pidOfUser(found.inode);
  if (pid === undefined)
    throw new Error(`${names}, and its log is beside another one: use that one, or delete the other names`);
  throw new StoreInUseError(
    `${names}, which is in use by process ${pid}: one SQLite file serves one process. Stop that one, or share a Postgres store`,
  );
}

/** First byte that SQLite locks in a database. */
const FIRST_LOCKED_BYTE = 0x4000_0000;

/** Returns the pid of a process that has a database open, according to the locks that Linux lists. */
function pidOfUser(inode: string): string | undefined {
  let locks: string;
  try {
    locks = readFileSync("/proc/locks", "utf8");
  } catch {
    return undefined;
  }
  for (const line of locks.split("\n")) {
    // 1: POSIX  ADVISORY  READ 4711 fd:01:131 1073741826 1073742335
    const [, pid, lockedInode, from] = /(\d+) [0-9a-f]+:[0-9a-f]+:(\d+) (\d+) \S+$/.exec(line) ?? [];
    if (lockedInode === inode && Number(from) >= FIRST_LOCKED_BYTE) return pid;
  }
  return undefined;
}
