import { chmodSync, mkdtempSync, rmSync, statfsSync } from "node:fs";
import { jobgateProgram } from "./helpers/jobgate-program.ts";

/** Linux's file system in memory. */
const MEMORY = "/dev/shm";
const NEEDED_BYTES = 2 ** 30;

/** Prepares what all test files share. @returns a function that removes it */
export default function setup(): (() => void) | undefined {
  const removeFolder = useMemory();
  // The files that need the program start together: each would make it, within the time of its first test.
  jobgateProgram();
  return removeFolder;
}

/**
 * Puts the tests' temporary files into memory, where there is room: their stores sync each write, and a disk takes a
 * hundred times longer for that.
 */
function useMemory(): (() => void) | undefined {
  if (!hasRoom()) return undefined;
  const folder = mkdtempSync(`${MEMORY}/jobgate-tests-`);
  // Postgres runs as another user when the tests are root's.
  chmodSync(folder, 0o711);
  process.env.TMPDIR = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize > NEEDED_BYTES;
  } catch {
    return false;
  }
}
