import { constants, type Stats } from "node:fs";
import { open, stat } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import type { Place } from "./mistakes.ts";

/** Bound on every file that the configuration names, in case it names a device or a log. */
const MAX_FILE_BYTES = 4 * 1024 * 1024;
const MAX_SECRET_BYTES = 64 * 1024;
/** Permission of users who neither own the file nor are in its group. */
const OTHERS_READ = 0o004;

/**
 * Instructions for reading the file that a key names. Only the walk over the schema reads such files, never a check or a
 * part.
 */
export interface FileReading {
  /** Folder that a relative path starts from: the working directory, or the folder of the configuration file. */
  readonly from: "process" | "configuration";
  readonly isSecret: boolean;
}

/** File that a key names. */
export interface NamedFile {
  /** Path as the key has it. */
  readonly path: string;
  readonly text: string;
}

class UnusableFile extends Error {
  override readonly name = "UnusableFile";
}

/**
 * Reads the text of a file.
 * @param mayBePipe true waits for the writer of a pipe. Only commands that a person runs may wait for it
 * @throws Error that {@link fileErrorText} explains
 */
export async function readText(file: string, mayBePipe: boolean): Promise<string> {
  return (await read(file, MAX_FILE_BYTES, mayBePipe)).text;
}

/**
 * Reads the file that a key names. Reports a file that cannot be read, and warns of a secret that every user can read.
 * @param from `place` is the key; `expected` completes "expected …"
 */
export async function readNamedFile(
  file: string,
  from: { readonly place: Place; readonly expected: string; readonly isSecret: boolean },
): Promise<string | undefined> {
  const { place, expected, isSecret } = from;
  try {
    const { text, mode } = await read(file, isSecret ? MAX_SECRET_BYTES : MAX_FILE_BYTES);
    if (isSecret && (mode & OTHERS_READ) !== 0) {
      const problem = `names ${file}, which every user of this machine can read`;
      place.warn(`${problem}; take their permission away (chmod o-r)`);
    }
    return text;
  } catch (error) {
    const problem = `names ${file}, which cannot be read: ${fileErrorText(error)}`;
    place.report(`${problem}; expected ${expected}`);
    return undefined;
  }
}

/** Path of a file that is relative to the folder of the configuration file. */
export function pathFrom(folder: string, file: string): string {
  return isAbsolute(file) ? file : join(folder, file);
}

/** Reason why a file cannot be used: `no such file`, `permission denied`. */
export function fileErrorText(error: unknown): string {
  if (error instanceof UnusableFile) return error.message;
  const code = (error as NodeJS.ErrnoException).code;
  if (code === "ENOENT") return "no such file";
  if (code === "EACCES" || code === "EPERM") return "permission denied";
  if (code === "EISDIR") return "it is a directory";
  return code ?? String(error);
}

async function read(
  file: string,
  maxBytes: number,
  mayBePipe = false,
): Promise<{ text: string; mode: number }> {
  // The file is checked before it is opened, because opening a pipe waits for its writer, and opening some devices starts
  // them.
  if (!mayBePipe) requireRegular(await stat(file));
  // The file may have been replaced since the check.
  const handle = await open(file, mayBePipe ? constants.O_RDONLY : NONBLOCKING);
  try {
    const stats = await handle.stat();
    const { mode } = stats;
    if (!mayBePipe) requireRegular(stats);
    const chunks: Buffer[] = [];
    for await (const chunk of handle.createReadStream({ end: maxBytes, autoClose: false }))
      chunks.push(chunk as Buffer);
    const bytes = Buffer.concat(chunks);
    if (bytes.length > maxBytes) throw new UnusableFile(`it is larger than ${maxBytes} bytes`);
    return { text: decode(bytes), mode };
  } finally {
    await handle.close();
  }
}

/** Opens a pipe without waiting for its writer. Windows has no such flag. */
const NONBLOCKING = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/** Requires a regular file, or a link to a regular file, as Kubernetes mounts secrets. @throws UnusableFile */
function requireRegular(stats: Stats): void {
  if (stats.isFile()) return;
  const kind = KINDS.find(([is]) => stats[is]())?.[1] ?? "no regular file";
  throw new UnusableFile(`it is ${kind}`);
}

const KINDS = [
  ["isDirectory", "a directory"],
  ["isFIFO", "a pipe"],
  ["isSocket", "a socket"],
  ["isCharacterDevice", "a device"],
  ["isBlockDevice", "a device"],
] as const satisfies readonly (readonly [keyof Stats, string])[];

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new UnusableFile("it is not UTF-8");
  }
}
