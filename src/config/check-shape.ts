import { closestMatch } from "leven";
import { z } from "zod";
import type { BindAddress } from "../core/network-address.ts";
import { isTable, UNREADABLE } from "./config-files.ts";
import { fileKey, type KeyPath } from "./key-path.ts";
import type { MistakeList } from "./mistakes.ts";

/** The valid part of a value. Wrong parts are left out, so that the rules can check the rest. */
export type Checked<T> = T extends string | number | bigint | boolean | BindAddress
  ? T
  : T extends readonly (infer Item)[]
    ? readonly (Checked<Item> | undefined)[]
    : T extends object
      ? { readonly [Key in keyof T]?: Checked<T[Key]> | undefined }
      : T;

/** A configuration that is complete: nothing in it changes, and an absent key is left out, not undefined. */
export type Complete<T> = T extends string | number | bigint | boolean | ReadonlyMap<unknown, unknown>
  ? T
  : T extends readonly (infer Item)[]
    ? readonly Complete<Item>[]
    : { readonly [Key in keyof T]: Complete<Exclude<T[Key], undefined>> };

/**
 * Checks a value against a schema and reports everything that is wrong with it. `schema.parse` keeps nothing of a
 * table with a mistake, so the rules between keys could not run.
 * @returns the value with the schema's keys; all of it, if nothing is reported
 */
export function checkShape<S extends z.ZodType>(
  schema: S,
  value: unknown,
  mistakes: MistakeList,
): Checked<z.output<S>> | undefined {
  return check(schema, value, [], mistakes) as Checked<z.output<S>> | undefined;
}

/** Returns a value that a rule has checked for. */
export function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("a rule of the configuration accepted a missing value");
  return value;
}

function check(declared: z.core.$ZodType, value: unknown, path: KeyPath, mistakes: MistakeList): unknown {
  if (value === UNREADABLE) return undefined;
  const schema = withoutDefault(declared);
  if (value === undefined) {
    const absent = z.safeParse(declared, undefined);
    if (absent.success) return absent.data;
    mistakes.report(path, `is missing; expected ${expected(schema)}`);
    return undefined;
  }
  if (schema instanceof z.ZodObject) return checkTable(schema, value, path, mistakes);
  if (schema instanceof z.ZodRecord) return checkRecord(schema, value, path, mistakes);
  if (schema instanceof z.ZodArray) {
    if (Array.isArray(value))
      return value.map((item, i) => check(schema.element, item, [...path, i], mistakes));
  } else if (schema instanceof z.ZodUnion && isTable(value)) {
    const table = schema.options.find((option) => option instanceof z.ZodObject);
    if (table !== undefined) return checkTable(table, value, path, mistakes);
  }
  return checkValue(schema, value, path, mistakes);
}

function withoutDefault(schema: z.core.$ZodType): z.core.$ZodType {
  const hasInner =
    schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault;
  return hasInner ? withoutDefault(schema.unwrap()) : schema;
}

function checkValue(schema: z.core.$ZodType, value: unknown, path: KeyPath, mistakes: MistakeList): unknown {
  const result = z.safeParse(schema, value);
  if (result.success) return result.data;
  const explained = result.error.issues.find(
    ({ code, message }) => code === "custom" && message.includes("; expected "),
  );
  // A number out of range is worth quoting. Where a string is expected, a number may be a secret.
  const found =
    typeof value === "bigint" && expected(schema).startsWith("an integer") ? `${value}` : kindOf(value);
  mistakes.report(path, explained?.message ?? `is ${found}; expected ${expected(schema)}`);
  return undefined;
}

function checkTable(
  schema: z.ZodObject,
  value: unknown,
  path: KeyPath,
  mistakes: MistakeList,
): Record<string, unknown> | undefined {
  if (!isTable(value)) {
    mistakes.report(path, `is ${kindOf(value)}; expected a table`);
    return undefined;
  }
  const names = Object.keys(schema.shape);
  const known = names.map(fileKey);
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue;
    const suggestion = closestMatch(key, known, { maxDistance: Math.max(2, Math.ceil(key.length / 3)) });
    const hint =
      suggestion === undefined ? `expected one of ${known.join(", ")}` : `did you mean ${suggestion}?`;
    mistakes.report([...path, key], `is not a known key; ${hint}`, suggestion);
  }
  const checked: Record<string, unknown> = {};
  for (const [i, name] of names.entries()) {
    const key = known[i] as string;
    const item = check(schema.shape[name] as z.ZodType, value[key], [...path, key], mistakes);
    if (item !== undefined) checked[name] = item;
  }
  return checked;
}

function checkRecord(
  schema: z.ZodRecord,
  value: unknown,
  path: KeyPath,
  mistakes: MistakeList,
): Record<string, unknown> | undefined {
  if (!isTable(value)) {
    mistakes.report(path, `is ${kindOf(value)}; expected ${expected(schema)}`);
    return undefined;
  }
  const checked: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    const isValidKey = z.safeParse(schema.keyType, key).success;
    if (!isValidKey) {
      mistakes.report([...path, key], `is not a valid key; expected ${expected(schema.keyType)}`);
    }
    const checkedItem = check(schema.valueType, item, [...path, key], mistakes);
    if (isValidKey) checked[key] = checkedItem;
  }
  return checked;
}

/** Completes "expected …" in a mistake. */
function expected(schema: z.core.$ZodType): string {
  return (schema as z.ZodType).description ?? "a table";
}

/** Names the kind of a TOML value; never the value, which may be a secret. */
function kindOf(value: unknown): string {
  if (value === "") return "an empty string";
  if (typeof value === "string") return "another string";
  if (typeof value === "bigint") return "an integer";
  if (typeof value === "number") return "a number with a fraction";
  if (typeof value === "boolean") return "true or false";
  if (Array.isArray(value)) return "an array";
  return isTable(value) ? "a table" : "a date or time";
}
