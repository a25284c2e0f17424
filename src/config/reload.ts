import { isDeepStrictEqual } from "node:util";
import * as z from "zod";
import { withoutDefault } from "./check-shape.ts";
import { isTable } from "./config-files.ts";
import { fileKey } from "./mistakes.ts";
import { type MayChange, notesOf, type TablesOfFile, type ValueNotes } from "./wrong-value.ts";

/* A reload changes every key, unless the schema marks the key otherwise. Sockets, the store and settings that runners
   rely on cannot change while jobgate runs. */

/** Marks a key that a reload changes only if a condition holds. */
export const changesIf = <S extends z.ZodType>(mayChange: MayChange, schema: S): S =>
  schema.meta({ mayChange } satisfies ValueNotes<never>);

/** Marks a key whose change needs a restart. */
export const fixed = <S extends z.ZodType>(schema: S): S => changesIf(() => false, schema);

/** Marks a table or file that a reload can change, but neither add nor remove. */
export const fixedPresence = <S extends z.ZodType>(schema: S): S =>
  changesIf((used, next) => (used === undefined) === (next === undefined), schema);

/** Marks a key that a reload can add and change, but not remove. */
export const neverRemoved = <S extends z.ZodType>(schema: S): S =>
  changesIf((_, next) => next !== undefined, schema);

/** Tables that are in use after a reload of a file. */
export interface Merged<Tables> {
  readonly tables: Tables;
  /** Keys whose change needs a restart, as the file spells them. */
  readonly needRestart: readonly string[];
  /** Returns true for the path of a key that keeps its old value, and for paths below that key. */
  isInUse(path: string): boolean;
}

/** Returns the tables of the next file, in which keys that a reload does not change keep the values in use. */
export function mergeTables<Tables extends TablesOfFile>(
  schema: z.ZodObject,
  files: { readonly used: Tables; readonly next: Tables },
): Merged<Tables> {
  const needRestart: string[] = [];
  const merge = (declared: z.core.$ZodType, used: unknown, next: unknown, path: string): unknown => {
    if (isDeepStrictEqual(used, next)) return next;
    const inner = withoutDefault(declared);
    const mayChange = notesOf(declared).mayChange ?? notesOf(inner).mayChange;
    if (mayChange?.(used, next, files) === false) {
      needRestart.push(path);
      return used;
    }
    if (!(inner instanceof z.ZodObject && isTable(used) && isTable(next))) return next;
    const values = Object.entries(inner.shape).map(([name, schemaOfKey]) => {
      const key = `${path}${path && "."}${fileKey(name)}`;
      return [name, merge(schemaOfKey, used[name], next[name], key)] as const;
    });
    return Object.fromEntries(values.filter(([, value]) => value !== undefined));
  };
  const tables = merge(schema, files.used, files.next, "") as Tables;
  const isInUse = (path: string) =>
    needRestart.some((key) => path.startsWith(key) && ["", ".", "["].includes(path.charAt(key.length)));
  return { tables, needRestart, isInUse };
}
