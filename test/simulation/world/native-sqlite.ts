/* Takes the place of `node:module` for `src/store/sqlite/driver.ts`: opens files on the simulated disk, and all others as it does. */
import { createRequire as realCreateRequire } from "node:module";
import { DISK, type Disk } from "./disk.ts";
import { useFilesOf } from "./disk-files.ts";
import { DiskVfs } from "./disk-vfs.ts";
import { type Process, simulation } from "./simulation.ts";
import { loadSqlite, type Sqlite, type WasmDatabase } from "./sqlite-wasm.ts";

interface NativeDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): object;
  close(): unknown;
}

type NativeClass = new (path: string) => NativeDatabase;

let loaded: { readonly sqlite: Sqlite; readonly vfs: DiskVfs } | undefined;

/** @param folder with SQLite's package */
export async function loadDiskDriver(folder: string): Promise<void> {
  if (loaded !== undefined) return;
  const sqlite = await loadSqlite(folder);
  loaded = { sqlite, vfs: new DiskVfs(sqlite) };
}

/** Makes this the disk whose files are opened from now on. */
export function useDisk(disk: Disk | undefined): void {
  loaded?.vfs.use(disk);
  useFilesOf(disk);
}

export function createRequire(url: string): (name: string) => unknown {
  const require = realCreateRequire(url);
  return (name) => {
    const native = require(name) as { readonly DatabaseSync?: NativeClass };
    return name === "node:sqlite"
      ? { DatabaseSync: either(native.DatabaseSync as NativeClass) }
      : either(native as NativeClass);
  };
}

function either(Native: NativeClass): NativeClass {
  return function open(name: string) {
    const { path, mayCreate } = fileOf(name);
    return path.startsWith(DISK) ? new DiskDatabase(path, mayCreate) : preparingOnce(new Native(name));
  } as unknown as NativeClass;
}

/** Prepares equal statements once, which saves time alone. */
function preparingOnce(database: NativeDatabase): NativeDatabase {
  const prepared = new Map<string, object>();
  return {
    exec: (sql) => database.exec(sql),
    close: () => database.close(),
    prepare(sql) {
      const known = prepared.get(sql) ?? database.prepare(sql);
      prepared.set(sql, known);
      return known;
    },
  };
}

/** @param name path, or URI of a file that has to exist */
function fileOf(name: string): { readonly path: string; readonly mayCreate: boolean } {
  if (!name.startsWith("file:")) return { path: name, mayCreate: true };
  return { path: new URL(name).pathname, mayCreate: false };
}

/**
 * A connection to a file on the disk, with the interface of a native driver. It opens the file when it is first used. The
 * world opens it for each use, so that gateways find what they would find without a watcher.
 */
class DiskDatabase {
  readonly #path: string;
  readonly #mayCreate: boolean;
  readonly #owner: Process = simulation().current;
  #open: { readonly database: WasmDatabase; readonly powerCycle: number } | undefined;

  constructor(path: string, mayCreate: boolean) {
    this.#path = path;
    this.#mayCreate = mayCreate;
  }

  exec(sql: string): void {
    this.#use((database) => database.exec(sql));
  }

  prepare(sql: string) {
    const prepared = this.#use((database) => ({ database, statement: database.prepare(sql) }));
    /** libsql takes one array, and node:sqlite one value after the other. */
    const rowsOf = (args: readonly unknown[], most: number): unknown[] =>
      this.#use((database) => {
        if (prepared.database !== database)
          Object.assign(prepared, { database, statement: database.prepare(sql) });
        const { statement } = prepared;
        const values = args.length === 1 && Array.isArray(args[0]) ? args[0] : args;
        if (values.length > 0) statement.bind(values);
        const rows: unknown[] = [];
        try {
          while (rows.length < most && statement.step()) rows.push(statement.get({}));
        } finally {
          statement.reset();
        }
        return rows;
      });
    return {
      run: (...args: unknown[]) => {
        rowsOf(args, Number.POSITIVE_INFINITY);
        const { database } = prepared;
        const lastInsertRowid = Number(theDriver().sqlite.capi.sqlite3_last_insert_rowid(database.pointer));
        return { changes: database.changes(), lastInsertRowid };
      },
      get: (...args: unknown[]) => rowsOf(args, 1)[0],
      all: (...args: unknown[]) => rowsOf(args, Number.POSITIVE_INFINITY),
    };
  }

  close(): void {
    if (this.#open === undefined) return;
    const { database, powerCycle } = this.#open;
    const { vfs } = theDriver();
    this.#open = undefined;
    const { isAlive } = this.#owner;
    const isWatcher = this.#owner === simulation().world;
    if (isAlive && !isWatcher && powerCycle === vfs.powerCycle) database.close();
    else vfs.ignoring(() => database.close());
  }

  /** Uses the open file as its owner, whoever asks. */
  #use<Result>(use: (database: WasmDatabase) => Result): Result {
    const { sqlite, vfs } = theDriver();
    const run = simulation();
    const { current } = run;
    run.current = this.#owner;
    try {
      this.#open ??= {
        database: new sqlite.oo1.DB({
          filename: this.#path,
          flags: this.#mayCreate ? "c" : "w",
          vfs: "disk",
        }),
        powerCycle: vfs.powerCycle,
      };
      return use(this.#open.database);
    } finally {
      if (this.#owner === run.world) this.close();
      run.current = current;
    }
  }
}

function theDriver() {
  if (loaded === undefined) throw new Error("SQLite in WebAssembly is not loaded");
  return loaded;
}
