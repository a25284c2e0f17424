import type { Random } from "../../helpers/seeded-random.ts";
import type { Files } from "./damage.ts";

const SECTOR = 512;
const PAGE = 4096;
const LOG_HEADER = 32;
const FRAME = 24 + PAGE;

export interface Fault {
  readonly of: "stopped" | "killed";
  damage(files: Files, random: Random): Partial<Files>;
}

function flipBit(bytes: Buffer, below: number, random: Random): Buffer {
  const copy = Buffer.from(bytes);
  const at = random(below);
  copy[at] = (copy[at] ?? 0) ^ (1 << random(8));
  return copy;
}

function overwrite(bytes: Buffer, at: number, other: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, at), other, bytes.subarray(at + other.byteLength)]);
}

/** Writes other bytes over a sector. */
function garble(bytes: Buffer, below: number, random: Random): Buffer {
  const at = SECTOR * random(Math.floor(below / SECTOR));
  return overwrite(bytes, at, Buffer.from(bytes.subarray(at, at + SECTOR).map((byte) => byte ^ 0xa5)));
}

/** End of the frame that ends the commit before the last but one, or the last. */
function endOfCommit(log: Buffer, fromLast: 1 | 2): number {
  const ends: number[] = [];
  for (let at = LOG_HEADER; at + FRAME <= log.byteLength; at += FRAME)
    if (log.readUInt32BE(at + 4) !== 0) ends.push(at + FRAME);
  return ends.at(-1 - fromLast) ?? 0;
}

const pagesIn = (bytes: Buffer) => bytes.byteLength / PAGE;

/** Faults that must never go unseen. */
export const NEVER_SILENT: Readonly<Record<string, Fault>> = {
  "a database that was truncated anywhere": {
    of: "stopped",
    damage: ({ database }, random) => ({ database: database.subarray(0, random(database.byteLength)) }),
  },
  "a database that was truncated after a page": {
    of: "stopped",
    damage: ({ database }, random) => ({ database: database.subarray(0, PAGE * random(pagesIn(database))) }),
  },
  "a database that lost a part of its last page": {
    of: "stopped",
    damage: ({ database }, random) => ({ database: database.subarray(0, -1 - random(PAGE - 1)) }),
  },
  "a flipped bit in the log, before the last two commits": {
    of: "killed",
    damage: ({ log }, random) => ({ log: flipBit(log, endOfCommit(log, 2), random) }),
  },
  "a garbled sector of the log, before the last two commits": {
    of: "killed",
    damage: ({ log }, random) => ({ log: garble(log, endOfCommit(log, 2), random) }),
  },
};

/** Faults of which SQLite cannot see all. */
export const NOT_ALWAYS_SEEN: Readonly<Record<string, Fault>> = {
  "a flipped bit in the database": {
    of: "stopped",
    damage: ({ database }, random) => ({ database: flipBit(database, database.byteLength, random) }),
  },
  "a garbled sector of the database": {
    of: "stopped",
    damage: ({ database }, random) => ({ database: garble(database, database.byteLength, random) }),
  },
  "a page of the database in another's place": {
    of: "stopped",
    damage({ database }, random) {
      const from = random(pagesIn(database));
      const to = (from + 1 + random(pagesIn(database) - 1)) % pagesIn(database);
      return {
        database: overwrite(database, PAGE * to, database.subarray(PAGE * from, PAGE * (from + 1))),
      };
    },
  },
  "a flipped bit in the log's last commit": {
    of: "killed",
    damage({ log }, random) {
      const start = endOfCommit(log, 1);
      const last = flipBit(log.subarray(start), log.byteLength - start, random);
      return { log: Buffer.concat([log.subarray(0, start), last]) };
    },
  },
  "a log that was truncated": {
    of: "killed",
    damage: ({ log }, random) => ({ log: log.subarray(0, random(log.byteLength)) }),
  },
  "a log that was deleted": { of: "killed", damage: () => ({ log: Buffer.alloc(0) }) },
};
