import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

/* The part of `@sqlite.org/sqlite-wasm` that the worlds use. Its package is in a folder of its own. */

export type Pointer = number;
export type Methods = Readonly<Record<string, (...args: never[]) => number>>;

interface Struct {
  readonly pointer: Pointer;
  $iVersion: number;
  $szOsFile: number;
  $mxPathname: number;
  $zName: Pointer;
  $pMethods: Pointer;
}

interface StructClass {
  new (pointer?: Pointer): Struct;
  readonly structInfo: { readonly sizeof: number };
}

export interface Sqlite {
  readonly config: { warn: (...words: readonly unknown[]) => void };
  readonly capi: {
    readonly sqlite3_vfs: StructClass;
    readonly sqlite3_io_methods: StructClass;
    readonly sqlite3_file: StructClass;
    sqlite3_randomness(bytes: number, to: Pointer): void;
    sqlite3_last_insert_rowid(database: Pointer): bigint;
  };
  readonly wasm: {
    alloc(bytes: number): Pointer;
    dealloc(pointer: Pointer): void;
    allocCString(text: string): Pointer;
    cstrToJs(pointer: Pointer): string;
    cstrncpy(to: Pointer, from: Pointer, bytes: number): number;
    heap8u(): Uint8Array;
    poke32(pointer: Pointer, value: number): void;
    poke64(pointer: Pointer, value: bigint): void;
    poke64f(pointer: Pointer, value: number): void;
    pokePtr(pointer: Pointer, value: Pointer): void;
  };
  readonly vfs: {
    installVfs(options: {
      readonly io: { readonly struct: Struct; readonly methods: Methods };
      readonly vfs: { readonly struct: Struct; readonly methods: Methods; readonly asDefault: boolean };
    }): void;
  };
  readonly oo1: {
    readonly DB: new (options: { filename: string; flags: string; vfs: string }) => WasmDatabase;
  };
}

export interface WasmDatabase {
  readonly pointer: Pointer;
  exec(sql: string): unknown;
  prepare(sql: string): WasmStatement;
  changes(): number;
  close(): void;
}

export interface WasmStatement {
  bind(values: readonly unknown[]): unknown;
  step(): boolean;
  get(row: object): Record<string, unknown>;
  reset(): unknown;
}

/** @param folder with the nested package */
export async function loadSqlite(folder: string): Promise<Sqlite> {
  const path = join(folder, "node_modules/@sqlite.org/sqlite-wasm/dist/node.mjs");
  if (!existsSync(path)) throw new Error(`there is no ${path}: run \`npm ci\` in ${folder}`);
  const { default: load } = createRequire(import.meta.url)(path) as { default: () => Promise<Sqlite> };
  const sqlite = await load();
  // Failures are what the worlds are about.
  sqlite.config.warn = () => undefined;
  return sqlite;
}
