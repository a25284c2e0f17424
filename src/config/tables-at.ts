import { isTable } from "./config-files.ts";
import { fileKey, type Place } from "./mistakes.ts";

export type Table = Readonly<Record<string, unknown>>;

/** Finds the tables at a path, in each entry of the arrays on the way. */
export function* tablesAt(value: unknown, path: readonly string[], place: Place): Iterable<[Table, Place]> {
  if (Array.isArray(value)) {
    for (const [i, item] of value.entries()) yield* tablesAt(item, path, place.at(i));
  } else if (isTable(value)) {
    const [key, ...rest] = path;
    if (key === undefined) yield [value, place];
    else yield* tablesAt(value[key], rest, place.at(fileKey(key)));
  }
}

/** Returns tables of which those at a path are changed, in each entry of the arrays on the way. */
export function changeAt<Value>(
  value: Value,
  path: readonly string[],
  change: (table: Table) => Table,
): Value {
  const changed = (): unknown => {
    if (Array.isArray(value)) return value.map((item) => changeAt(item, path, change));
    if (!isTable(value)) return value;
    const [key, ...rest] = path;
    if (key === undefined) return change(value);
    return key in value ? { ...value, [key]: changeAt(value[key], rest, change) } : value;
  };
  return changed() as Value;
}

/** Returns the keys of a table that are in a schema too. */
export function pick(table: Table, keys: object): Table {
  return Object.fromEntries(Object.entries(table).filter(([key]) => key in keys));
}

/** Returns the other keys. */
export function omit(table: Table, keys: object): Table {
  return Object.fromEntries(Object.entries(table).filter(([key]) => !(key in keys)));
}
