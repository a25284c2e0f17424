import { existsSync } from "node:fs";

/**
 * Something that a process asked of the files in one folder, or sent over a socket. Threads overlap, so a sync has a start
 * and an end.
 */
export type DiskEvent =
  | { readonly kind: "create"; readonly path: string }
  | { readonly kind: "unlink"; readonly path: string }
  | { readonly kind: "write"; readonly path: string; readonly offset: number; readonly bytes: Buffer }
  | { readonly kind: "truncate"; readonly path: string; readonly size: number }
  | { readonly kind: "sync"; readonly path: string; readonly thread: string }
  | { readonly kind: "synced"; readonly path: string; readonly thread: string }
  | { readonly kind: "sent"; readonly text: string };

const STRACE_PATH = "/usr/bin/strace";
const CALLS = [
  ...["openat", "pwrite64", "write", "writev", "sendto", "sendmsg"],
  ...["ftruncate", "fsync", "fdatasync", "unlink", "rename"],
];

export function hasStrace(): boolean {
  return existsSync(STRACE_PATH);
}

/** Command that runs another one, as the same process, and records its system calls in a file. */
export function recordingCommand(tracePath: string): string[] {
  if (!hasStrace()) throw new Error(`There is no ${STRACE_PATH}: install the package strace.`);
  const options = [
    "-D",
    "-f",
    "--seccomp-bpf",
    "-y",
    "-xx",
    "-s",
    "10000000",
    "-e",
    `trace=${CALLS.join(",")}`,
  ];
  return [STRACE_PATH, ...options, "-o", tracePath];
}

/** Reads a recording. Files whose name ends with `-shm` are left out: they are memory that processes share. */
export function readRecording(trace: string, folder: string): DiskEvent[] {
  const events: DiskEvent[] = [];
  const syncing = new Map<string, string>();
  const isInFolder = (path: string) =>
    path === folder || (path.startsWith(`${folder}/`) && !path.endsWith("-shm"));
  for (const line of trace.split("\n")) {
    const [, thread = "", resumed, call = "", rest = ""] = /^(\d+) +(<\.\.\. )?(\w+)(.*)$/.exec(line) ?? [];
    if (resumed !== undefined) {
      const path = syncing.get(thread);
      if (path !== undefined && call.endsWith("sync")) events.push({ kind: "synced", path, thread });
      continue;
    }
    const file = unescaped(/^\(\d+<([^>]*)>/.exec(rest)?.[1]).toString();
    const strings = [...rest.matchAll(/"([^"]*)"/g)].map(([, text]) => unescaped(text));
    const named = strings[0]?.toString() ?? "";
    if (call === "rename") throw new Error(`the recording has a rename, which is not modelled: ${named}`);
    if (call === "openat" && rest.includes("O_CREAT") && isInFolder(named)) {
      events.push({ kind: "create", path: named });
    } else if (call === "unlink" && isInFolder(named)) {
      events.push({ kind: "unlink", path: named });
    } else if (call === "pwrite64" && isInFolder(file)) {
      const offset = Number(/", \d+, (\d+)/.exec(rest)?.[1]);
      events.push({ kind: "write", path: file, offset, bytes: strings[0] as Buffer });
    } else if (call === "ftruncate" && isInFolder(file)) {
      events.push({ kind: "truncate", path: file, size: Number(/>, (\d+)/.exec(rest)?.[1]) });
    } else if (call.endsWith("sync") && isInFolder(file)) {
      events.push({ kind: "sync", path: file, thread });
      if (rest.includes("<unfinished")) syncing.set(thread, file);
      else events.push({ kind: "synced", path: file, thread });
    } else if (/^(write|writev|sendto|sendmsg)$/.test(call)) {
      if (isInFolder(file)) throw new Error(`the recording has a write without an offset: ${file}`);
      events.push({ kind: "sent", text: Buffer.concat(strings).toString() });
    }
  }
  return events;
}

function unescaped(text = ""): Buffer {
  return Buffer.from(text.replaceAll("\\x", ""), "hex");
}

/** Change of a file that the disk may or may not have. */
type Change = WriteChange | { readonly size: number };

interface WriteChange {
  readonly offset: number;
  readonly bytes: Buffer;
}

interface DiskFile {
  content: Buffer;
  unsynced: Change[];
}

/** A file's name, or the end of one (without `file`), that the disk may or may not have. */
interface EntryChange {
  readonly path: string;
  readonly file: DiskFile | undefined;
}

const SECTOR_BYTES = 512;

/**
 * A disk that keeps only what was synced when the power fails. Of the rest it has anything: each write whole, in part (by
 * sectors, in any order) or not at all; each file's name or not, until its folder is synced.
 */
export class RecordedDisk {
  readonly #folder: string;
  /** Files as the process sees them. */
  readonly #files = new Map<string, DiskFile>();
  #entries = new Map<string, DiskFile>();
  #unsyncedEntries: EntryChange[] = [];
  /** Writes and names covered by the sync that a thread waits for. */
  readonly #covered = new Map<string, ReadonlySet<unknown>>();

  /** @param files what it has already, by path */
  constructor(folder: string, files: ReadonlyMap<string, Buffer> = new Map()) {
    this.#folder = folder;
    for (const [path, content] of files) {
      const file = { content, unsynced: [] };
      this.#files.set(path, file);
      this.#entries.set(path, file);
    }
  }

  apply(event: DiskEvent): void {
    if (event.kind === "sent") return;
    const file = this.#files.get(event.path);
    if (event.kind === "create") {
      if (file === undefined) this.#name(event.path, { content: Buffer.alloc(0), unsynced: [] });
    } else if (event.kind === "unlink") {
      this.#name(event.path, undefined);
    } else if (event.kind === "write" || event.kind === "truncate") {
      file?.unsynced.push(event);
    } else if (event.kind === "sync") {
      const isFolder = event.path === this.#folder;
      const changes: readonly unknown[] = isFolder ? this.#unsyncedEntries : (file?.unsynced ?? []);
      this.#covered.set(event.thread, new Set(changes));
    } else {
      this.#keep(this.#covered.get(event.thread) ?? new Set(), file);
    }
  }

  /** Returns the files, by path, that the disk may have when the power fails now. */
  afterPowerLoss(): Map<string, Buffer> {
    const isKept = chance();
    const entries = new Map(this.#entries);
    for (const change of this.#unsyncedEntries) if (isKept()) name(entries, change);
    return new Map([...entries].map(([path, file]) => [path, afterLoss(file, isKept)]));
  }

  /** A sync fails: the disk has anything of what it covered, and no later sync writes the rest. @returns what it has */
  failSync(path: string): Buffer {
    const file = this.#files.get(path);
    if (file === undefined) throw new Error(`there is no file ${path}`);
    file.content = afterLoss(file, chance());
    file.unsynced = [];
    return file.content;
  }

  #name(path: string, file: DiskFile | undefined): void {
    name(this.#files, { path, file });
    this.#unsyncedEntries.push({ path, file });
  }

  #keep(covered: ReadonlySet<unknown>, file: DiskFile | undefined): void {
    for (const change of this.#unsyncedEntries) if (covered.has(change)) name(this.#entries, change);
    this.#unsyncedEntries = this.#unsyncedEntries.filter((change) => !covered.has(change));
    if (file === undefined) return;
    file.content = changed(
      file.content,
      file.unsynced.filter((change) => covered.has(change)),
    );
    file.unsynced = file.unsynced.filter((change) => !covered.has(change));
  }
}

/** Decides whether something is kept: often nothing or everything is, and few things differ from that. */
function chance(): () => boolean {
  const share = [0, 1, Math.random()][Math.floor(Math.random() * 3)] as number;
  return () => (Math.random() < 0.1 ? Math.random() < 0.5 : Math.random() < share);
}

function afterLoss({ content, unsynced }: DiskFile, isKept: () => boolean): Buffer {
  const fate = (change: Change) => {
    if ("bytes" in change && Math.random() < 0.1) return sectorsOf(change).filter(() => Math.random() < 0.5);
    return isKept() ? [change] : [];
  };
  return changed(content, unsynced.flatMap(fate));
}

function name(entries: Map<string, DiskFile>, { path, file }: EntryChange): void {
  if (file === undefined) entries.delete(path);
  else entries.set(path, file);
}

function changed(content: Buffer, changes: readonly Change[]): Buffer {
  const endOf = (change: Change) =>
    "size" in change ? change.size : change.offset + change.bytes.byteLength;
  const bytes = Buffer.alloc(
    changes.reduce((size, change) => Math.max(size, endOf(change)), content.byteLength),
  );
  content.copy(bytes);
  let size = content.byteLength;
  for (const change of changes) {
    if ("bytes" in change) {
      change.bytes.copy(bytes, change.offset);
      size = Math.max(size, endOf(change));
    } else {
      bytes.fill(0, change.size);
      size = change.size;
    }
  }
  return bytes.subarray(0, size);
}

function sectorsOf({ offset, bytes }: WriteChange): WriteChange[] {
  const sectors: WriteChange[] = [];
  const end = offset + bytes.byteLength;
  for (let at = offset; at < end; ) {
    const next = Math.min(end, (Math.floor(at / SECTOR_BYTES) + 1) * SECTOR_BYTES);
    sectors.push({ offset: at, bytes: bytes.subarray(at - offset, next - offset) });
    at = next;
  }
  return sectors;
}
