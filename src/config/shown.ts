import * as z from "zod";
import { optionFor, withoutDefault } from "./check-shape.ts";
import { isTable } from "./config-files.ts";
import { fileKey, type Place } from "./mistakes.ts";
import { notesOf, type Scalar } from "./wrong-value.ts";

/** A value of the configuration as operators see it, without secrets. */
export type Shown = Scalar | Shown[] | ShownTable;

/** Keys of a table, as the file spells them, with what operators see of their values. */
export type ShownTable = { [key: string]: Shown };

/**
 * Returns what operators see of a checked value. For a value whose kind has no view, operators see only its origin, or that
 * it is set.
 */
function shown(declared: z.core.$ZodType, value: unknown, place: Place): Shown {
  const schema = withoutDefault(declared);
  if (schema instanceof z.ZodObject && isTable(value)) return shownTable(schema, value, place);
  if (schema instanceof z.ZodRecord && isTable(value) && notesOf(schema.keyType).view !== undefined) {
    const entries = Object.entries(value);
    return Object.fromEntries(
      entries.map(([key, item]) => [key, shown(schema.valueType, item, place.at(key))]),
    );
  }
  if (schema instanceof z.ZodArray && Array.isArray(value))
    return value.map((item, i) => shown(schema.element, item, place.at(i)));
  const option = schema instanceof z.ZodUnion ? optionFor(schema, value) : undefined;
  // A value that is text in the file may be parsed into an object. The keys of that object are not keys of the table.
  const isOfText =
    option instanceof z.ZodObject && !Object.keys(value as object).every((key) => key in option.shape);
  if (option !== undefined && !isOfText) return shown(option, value, place);
  return place.view ?? notesOf(schema).view?.(value) ?? place.origin ?? "set";
}

/** Returns the view that operators have of the keys of a table. A key without a value is left out. */
export function shownTable(schema: z.ZodObject, table: object, place: Place): ShownTable {
  const values = table as Readonly<Record<string, unknown>>;
  const seen: ShownTable = {};
  for (const [name, schemaOfKey] of Object.entries(schema.shape)) {
    const key = fileKey(name);
    if (values[name] !== undefined) seen[key] = shown(schemaOfKey, values[name], place.at(key));
  }
  return seen;
}
