import { isTable } from "./config-files.ts";
import { fileKey, type Place } from "./mistakes.ts";

export type Table = Readonly<Record<string, unknown>>;

/** Finds the tables at a path, in each entry of the arrays along the path. */
export function* tablesAt(value: unknown, path: readonly string[], place: Place): Iterable<[Table, Place]> {
  if (Array.isArray(value)) {
    for (const [i, item] of value.entries()) yield* tablesAt(item, path, place.at(i));
  } else if (isTable(value)) {
    const [key, ...rest] = path;
    if (key === undefined) yield [value, place];
    else yield* tablesAt(value[key], rest, place.at(fileKey(key)));
  }
}

/** Returns a copy of tables in which the tables at a path are changed, in each entry of the arrays along the path. */
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

/** Returns the keys of a table that a schema also has. */
export function pick(table: Table, keys: object): Table {
  return Object.fromEntries(Object.entries(table).filter(([key]) => key in keys));
}

/** Returns the keys of a table that a schema does not have. */
export function omit(table: Table, keys: object): Table {
  return Object.fromEntries(Object.entries(table).filter(([key]) => !(key in keys)));
}
