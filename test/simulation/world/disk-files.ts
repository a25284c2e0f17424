/* Takes the place of `node:fs` for `src/store/sqlite/durable-log.ts`: files on the simulated disk, and all others as they are. */
import * as fs from "node:fs";
import { DISK, type Disk } from "./disk.ts";

let disk: Disk | undefined;
/** Open files on the disk. */
const paths = new Map<number, string>();
/** Descriptors that no system gives out. */
let next = 1_000_000;

export function useFilesOf(used: Disk | undefined): void {
  disk = used;
  paths.clear();
}

export function openSync(path: string, flags: string): number {
  if (!path.startsWith(DISK)) return fs.openSync(path, flags);
  if (!disk?.files.has(path)) throw Object.assign(new Error(`there is no ${path}`), { code: "ENOENT" });
  paths.set(next, path);
  return next++;
}

export function readSync(file: number, to: Buffer, offset: number, bytes: number, at: number): number {
  const path = paths.get(file);
  if (path === undefined) return fs.readSync(file, to, offset, bytes, at);
  return disk?.files.get(path)?.copy(to, offset, at, at + bytes) ?? 0;
}

export function writeSync(file: number, from: Buffer, offset: number, bytes: number, at: number): number {
  const path = paths.get(file);
  if (path === undefined) return fs.writeSync(file, from, offset, bytes, at);
  disk?.write(path, at, from.subarray(offset, offset + bytes));
  return bytes;
}

export function fsyncSync(file: number): void {
  const path = paths.get(file);
  if (path === undefined) fs.fsyncSync(file);
  else disk?.sync(path);
}

export function closeSync(file: number): void {
  if (!paths.delete(file)) fs.closeSync(file);
}
