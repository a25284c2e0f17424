import { closestMatch } from "leven";
import { z } from "zod";
import type { BindAddress } from "../core/network-address.ts";
import { isTable, UNREADABLE } from "./config-files.ts";
import type { KeyPath } from "./mistake.ts";
import type { MistakeList } from "./mistake-list.ts";

/**
 * What is left of a value when every part that is wrong is taken out. The rules that hold between keys still
 * check all that is there, so that one wrong value does not hide another mistake.
 */
export type Checked<T> = T extends string | number | bigint | boolean | BindAddress
  ? T
  : T extends readonly (infer Item)[]
    ? readonly (Checked<Item> | undefined)[]
    : T extends object
      ? { readonly [Key in keyof T]?: Checked<T[Key]> | undefined }
      : T;

/**
 * Checks a value against a schema and reports everything in it that is wrong. `schema.parse` would stop at the
 * first level that fails, and keep nothing of it.
 */
export function checkShape<S extends z.ZodTypeAny>(
  schema: S,
  value: unknown,
  mistakes: MistakeList,
): Checked<z.output<S>> | undefined {
  return check(schema, value, [], mistakes) as Checked<z.output<S>> | undefined;
}

function check(schema: z.ZodTypeAny, value: unknown, path: KeyPath, mistakes: MistakeList): unknown {
  if (value === UNREADABLE) return undefined;
  if (schema instanceof z.ZodOptional) {
    return value === undefined ? undefined : check(schema.unwrap(), value, path, mistakes);
  }
  if (schema instanceof z.ZodDefault) {
    const given = value === undefined ? schema._def.defaultValue() : value;
    return check(schema.removeDefault(), given, path, mistakes);
  }
  if (value === undefined) {
    mistakes.report(path, `is missing; expected ${expected(schema)}`);
    return undefined;
  }
  if (schema instanceof z.ZodObject) return checkObject(schema, value, path, mistakes);
  if (schema instanceof z.ZodRecord) return checkRecord(schema, value, path, mistakes);
  if (schema instanceof z.ZodArray) return checkArray(schema, value, path, mistakes);
  if (schema instanceof z.ZodUnion && isTable(value)) {
    const options = schema.options as readonly z.ZodTypeAny[];
    const table = options.find((option) => option instanceof z.ZodObject);
    if (table !== undefined) return check(table, value, path, mistakes);
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const special = result.error.issues.find(
    ({ code, message }) => code === "custom" && / expected /.test(message),
  );
  // A number out of range is worth telling; where a text is expected, even a number may be a secret.
  const found =
    typeof value === "bigint" && /^an integer/.test(expected(schema)) ? `${value}` : kindOf(value);
  mistakes.report(path, special?.message ?? `is ${found}; expected ${expected(schema)}`);
  return undefined;
}

function checkObject(
  schema: z.AnyZodObject,
  value: unknown,
  path: KeyPath,
  mistakes: MistakeList,
): Record<string, unknown> | undefined {
  if (!isTable(value)) {
    mistakes.report(path, `is ${kindOf(value)}; expected a table`);
    return undefined;
  }
  const known = Object.keys(schema.shape);
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue;
    const suggestion = closestMatch(key, known, { maxDistance: Math.max(2, Math.ceil(key.length / 3)) });
    const hint =
      suggestion === undefined ? `expected one of ${known.join(", ")}` : `did you mean ${suggestion}?`;
    mistakes.report([...path, key], `is not a known key; ${hint}`, suggestion);
  }
  const checked: Record<string, unknown> = {};
  for (const key of known) checked[key] = check(schema.shape[key], value[key], [...path, key], mistakes);
  return checked;
}

function checkRecord(
  schema: z.ZodRecord,
  value: unknown,
  path: KeyPath,
  mistakes: MistakeList,
): Record<string, unknown> | undefined {
  if (!isTable(value)) {
    mistakes.report(path, `is ${kindOf(value)}; expected ${schema.description ?? "a table"}`);
    return undefined;
  }
  const checked: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    const good = schema.keySchema.safeParse(key).success;
    if (!good) mistakes.report([...path, key], `is not a valid key; expected ${expected(schema.keySchema)}`);
    const checkedItem = check(schema.valueSchema, item, [...path, key], mistakes);
    if (good) checked[key] = checkedItem;
  }
  return checked;
}

function checkArray(
  schema: z.ZodArray<z.ZodTypeAny>,
  value: unknown,
  path: KeyPath,
  mistakes: MistakeList,
): unknown[] | undefined {
  if (!Array.isArray(value)) {
    mistakes.report(path, `is ${kindOf(value)}; expected ${expected(schema)}`);
    return undefined;
  }
  return value.map((item, i) => check(schema.element, item, [...path, i], mistakes));
}

function expected(schema: z.ZodTypeAny): string {
  return schema.description ?? "a table";
}

/** The kind of a TOML value in words; never the value, which may be a secret. */
function kindOf(value: unknown): string {
  if (value === "") return "an empty string";
  if (typeof value === "string") return "another string";
  if (typeof value === "bigint") return "an integer";
  if (typeof value === "number") return "a number with a fraction";
  if (typeof value === "boolean") return "true or false";
  if (Array.isArray(value)) return "an array";
  return isTable(value) ? "a table" : "a date or time";
}
