import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import { requireSoundFiles } from "../../../src/store/sqlite/sound-files.ts";
import { testFolder } from "../../helpers/test-folder.ts";

const HEADER_BYTES = 32;
const FRAME_BYTES = 24 + 4096;
/** Position in a frame of the size that only the last one of a commit has. */
const COMMIT_SIZE = 4;

interface Files {
  readonly database: Buffer;
  readonly log: Buffer;
}

/** Returns a database and its log after some commits, as they are on the disk while it is in use. */
async function filesAfter(commits: number): Promise<Files> {
  const path = join(await testFolder(), "used.db");
  const database = openDriver(path);
  try {
    for (const sql of ["journal_mode = WAL", "synchronous = FULL"]) database.exec(`PRAGMA ${sql}`);
    database.exec("CREATE TABLE texts (text TEXT)");
    // Each changes several pages.
    const insert = `INSERT INTO texts VALUES ('${"x".repeat(12_000)}')`;
    for (let i = 1; i < commits; i++) database.exec(insert);
    return { database: readFileSync(path), log: readFileSync(`${path}-wal`) };
  } finally {
    database.close();
  }
}

/** Checks copies of the files in which one byte of the log is another. */
async function checkWithout({ database, log }: Files, frame: number, byte: number) {
  const path = join(await testFolder(), "damaged.db");
  const damaged = Buffer.from(log);
  const at = HEADER_BYTES + frame * FRAME_BYTES + byte;
  damaged.writeUInt8(damaged.readUInt8(at) ^ 1, at);
  writeFileSync(path, database);
  writeFileSync(`${path}-wal`, damaged);
  return () => requireSoundFiles(path);
}

/** Numbers of the frames that end commits. */
function commitsOf(log: Buffer): number[] {
  const frames = Array.from({ length: (log.byteLength - HEADER_BYTES) / FRAME_BYTES }, (_, frame) => frame);
  return frames.filter((frame) => log.readUInt32BE(HEADER_BYTES + frame * FRAME_BYTES + COMMIT_SIZE) !== 0);
}

it("Damage in a log is reported when two commits follow it, and not when it is in the last commit", async () => {
  const files = await filesAfter(5);
  const [, , first = 0, , last = 0] = commitsOf(files.log);
  expect(await checkWithout(files, first, 2_000)).toThrow(/damaged at frame/);
  expect(await checkWithout(files, last, 2_000)).not.toThrow();
});

it("A torn frame of the last commit that looks like the end of one is not", async () => {
  const files = await filesAfter(5);
  const last = commitsOf(files.log).at(-1) ?? 0;
  expect(await checkWithout(files, last - 2, COMMIT_SIZE + 3)).not.toThrow();
});
