import { type Disk, DiskError } from "./disk.ts";
import { FileLocks, SharedMemory } from "./file-locks.ts";
import { type Process, simulation } from "./simulation.ts";
import type { Methods, Pointer, Sqlite } from "./sqlite-wasm.ts";

/** Result codes and flags of SQLite. */
const OK = 0;
const BUSY = 5;
const IO_ERROR = 10;
const NOT_FOUND = 12;
const FULL = 13;
const CANNOT_OPEN = 14;
const SHORT_READ = 522;
const SYNC_ERROR = 1034;
const OPEN_CREATE = 0x4;
const OPEN_JOURNAL_OR_LOG = 0x800 | 0x4000 | 0x80000;
const SHM_UNLOCK = 1;
const SHM_EXCLUSIVE = 8;
const POWERSAFE_OVERWRITE = 0x1000;
const PAGE_OF_SYSTEM = 4096;
/** Julian day of 1970-01-01, in milliseconds. */
const UNIX_EPOCH = 210_866_760_000_000;

/** One open of a file by a process. */
interface Handle {
  readonly path: string;
  readonly process: Process;
  readonly powerCycle: number;
  /** The name of this log or journal is synced with its first sync, as SQLite does on Unix. */
  syncsName: boolean;
}

/** SQLite's view of the disk: behaves as its VFS for Unix does. All connections share the memory of one WebAssembly instance. */
export class DiskVfs {
  readonly #sqlite: Sqlite;
  readonly #handles = new Map<Pointer, Handle>();
  readonly #methodsOfFiles: Pointer;
  readonly #locks = new FileLocks<Handle>((handle) => this.#isLive(handle));
  readonly #memory: SharedMemory<Handle>;
  #disk: Disk | undefined;
  #isIgnored = false;

  constructor(sqlite: Sqlite) {
    this.#sqlite = sqlite;
    const { capi, wasm, vfs: vfsApi } = sqlite;
    this.#memory = new SharedMemory(wasm, (handle) => this.#isLive(handle));
    const vfs = new capi.sqlite3_vfs();
    vfs.$iVersion = 2;
    vfs.$szOsFile = capi.sqlite3_file.structInfo.sizeof;
    vfs.$mxPathname = 512;
    vfs.$zName = wasm.allocCString("disk");
    const io = new capi.sqlite3_io_methods();
    io.$iVersion = 2;
    this.#methodsOfFiles = io.pointer;
    vfsApi.installVfs({
      io: { struct: io, methods: { ...this.#contents(), ...this.#locking() } },
      vfs: { struct: vfs, methods: { ...this.#names(), ...this.#surroundings() }, asDefault: true },
    });
  }

  /** Uses the disk of another run, with other randomness. */
  use(disk: Disk | undefined): void {
    this.#disk = disk;
    this.#sqlite.capi.sqlite3_randomness(0, 0);
  }

  /** Frees a connection of a process that has died, or of a watcher: nothing of that reaches the disk. */
  ignoring(close: () => void): void {
    this.#isIgnored = true;
    try {
      close();
    } finally {
      this.#isIgnored = false;
    }
  }

  get powerCycle(): number {
    return this.#usedDisk.powerCycle;
  }

  get #usedDisk(): Disk {
    if (this.#disk === undefined) throw new Error("no disk is used");
    return this.#disk;
  }

  #isLive({ process, powerCycle }: Handle): boolean {
    return process.isAlive && powerCycle === this.#disk?.powerCycle;
  }

  /** Runs an operation on an open file. */
  #on(file: Pointer, run: (disk: Disk, handle: Handle) => number): number {
    const handle = this.#handles.get(file);
    if (handle === undefined || this.#isIgnored || !this.#isLive(handle)) return IO_ERROR;
    try {
      return run(this.#usedDisk, handle);
    } catch (error) {
      if (!(error instanceof DiskError)) throw error;
      return error.code === "ENOSPC" ? FULL : IO_ERROR;
    }
  }

  #names(): Methods {
    const { capi, wasm } = this.#sqlite;
    return {
      xOpen: (_vfs: Pointer, name: Pointer, file: Pointer, flags: number, outFlags: Pointer) => {
        const disk = this.#usedDisk;
        if (name === 0) return CANNOT_OPEN;
        const path = wasm.cstrToJs(name);
        const isNew = !disk.files.has(path);
        if (isNew && (flags & OPEN_CREATE) === 0) return CANNOT_OPEN;
        if (isNew) disk.create(path);
        const { current: process } = simulation();
        const syncsName = isNew && (flags & OPEN_JOURNAL_OR_LOG) !== 0;
        this.#handles.set(file, { path, process, powerCycle: disk.powerCycle, syncsName });
        new capi.sqlite3_file(file).$pMethods = this.#methodsOfFiles;
        if (outFlags !== 0) wasm.poke32(outFlags, flags);
        return OK;
      },
      xDelete: (_vfs: Pointer, name: Pointer, syncsNames: number) => {
        if (this.#isIgnored) return OK;
        this.#usedDisk.remove(wasm.cstrToJs(name));
        if (syncsNames !== 0) this.#usedDisk.syncNames();
        return OK;
      },
      xAccess: (_vfs: Pointer, name: Pointer, _flags: number, out: Pointer) => {
        // SQLite takes a journal of no bytes for none.
        wasm.poke32(out, (this.#usedDisk.files.get(wasm.cstrToJs(name))?.byteLength ?? 0) > 0 ? 1 : 0);
        return OK;
      },
      xFullPathname: (_vfs: Pointer, name: Pointer, bytes: number, out: Pointer) =>
        wasm.cstrncpy(out, name, bytes) < bytes ? OK : CANNOT_OPEN,
    };
  }

  #surroundings(): Methods {
    const { wasm } = this.#sqlite;
    return {
      xGetLastError: () => OK,
      xCurrentTime: (_vfs: Pointer, out: Pointer) => {
        wasm.poke64f(out, (simulation().wallMs + UNIX_EPOCH) / 86_400_000);
        return OK;
      },
      xCurrentTimeInt64: (_vfs: Pointer, out: Pointer) => {
        wasm.poke64(out, BigInt(simulation().wallMs + UNIX_EPOCH));
        return OK;
      },
      xRandomness: (_vfs: Pointer, bytes: number, out: Pointer) => {
        const heap = wasm.heap8u();
        for (let i = 0; i < bytes; i++) heap[out + i] = Math.floor(simulation().random("SQLite") * 256);
        return bytes;
      },
      xSleep: () => OK,
    };
  }

  #contents(): Methods {
    const { wasm } = this.#sqlite;
    return {
      xClose: (file: Pointer) => {
        const handle = this.#handles.get(file);
        if (handle !== undefined) this.#locks.release(handle.path, handle);
        this.#handles.delete(file);
        return OK;
      },
      xRead: (file: Pointer, to: Pointer, bytes: number, at: bigint) =>
        this.#on(file, (disk, { path }) => {
          const content = disk.files.get(path) ?? Buffer.alloc(0);
          const found = content.subarray(Number(at), Number(at) + bytes);
          const heap = wasm.heap8u();
          heap.set(found, to);
          heap.fill(0, to + found.byteLength, to + bytes);
          return found.byteLength === bytes ? OK : SHORT_READ;
        }),
      xWrite: (file: Pointer, from: Pointer, bytes: number, at: bigint) =>
        this.#on(file, (disk, { path }) => {
          disk.write(path, Number(at), wasm.heap8u().subarray(from, from + bytes));
          return OK;
        }),
      xTruncate: (file: Pointer, size: bigint) =>
        this.#on(file, (disk, { path }) => {
          disk.truncate(path, Number(size));
          return OK;
        }),
      xSync: (file: Pointer) => {
        const result = this.#on(file, (disk, handle) => {
          disk.sync(handle.path);
          if (handle.syncsName) disk.syncNames();
          handle.syncsName = false;
          return OK;
        });
        return result === IO_ERROR ? SYNC_ERROR : result;
      },
      xFileSize: (file: Pointer, out: Pointer) =>
        this.#on(file, (disk, { path }) => {
          wasm.poke64(out, BigInt(disk.files.get(path)?.byteLength ?? 0));
          return OK;
        }),
      xFileControl: () => NOT_FOUND,
      xSectorSize: () => PAGE_OF_SYSTEM,
      xDeviceCharacteristics: () => POWERSAFE_OVERWRITE,
    };
  }

  #locking(): Methods {
    const { wasm } = this.#sqlite;
    const taken = (isTaken: boolean) => (isTaken ? OK : BUSY);
    return {
      xLock: (file: Pointer, level: number) =>
        this.#on(file, (_, handle) => taken(this.#locks.take(handle.path, handle, level))),
      xUnlock: (file: Pointer, level: number) =>
        this.#on(file, (_, handle) => taken(this.#locks.take(handle.path, handle, level))),
      xCheckReservedLock: (file: Pointer, out: Pointer) =>
        this.#on(file, (_, { path }) => {
          wasm.poke32(out, this.#locks.isReserved(path) ? 1 : 0);
          return OK;
        }),
      xShmMap: (file: Pointer, region: number, bytes: number, extend: number, out: Pointer) =>
        this.#on(file, (_, handle) => {
          wasm.pokePtr(
            out,
            this.#memory.region(handle.path, handle, { region, bytes, extends: extend !== 0 }),
          );
          return OK;
        }),
      xShmLock: (file: Pointer, first: number, count: number, flags: number) =>
        this.#on(file, (_, handle) => {
          const kind =
            (flags & SHM_UNLOCK) !== 0 ? "none" : (flags & SHM_EXCLUSIVE) !== 0 ? "exclusive" : "shared";
          return taken(this.#memory.lock(handle.path, handle, { first, count, kind }));
        }),
      xShmBarrier: () => OK,
      xShmUnmap: (file: Pointer) => {
        const handle = this.#handles.get(file);
        if (handle !== undefined) this.#memory.leave(handle.path, handle);
        return OK;
      },
    };
  }
}
