import * as z from "zod";
import { closestWord } from "../core/closest-word.ts";
import type { BindAddress } from "../core/network-address.ts";
import { isTable, UNREADABLE } from "./config-files.ts";
import { fileKey, type MistakeList, type Place } from "./mistakes.ts";
import { type NamedFile, pathFrom, readNamedFile } from "./named-files.ts";
import { describeWrong, expected, kindOf, notesOf } from "./wrong-value.ts";

/** The valid part of a value. Wrong parts are left out, so that the rules can check the rest. */
export type Checked<T> = T extends string | number | bigint | boolean | BindAddress | NamedFile
  ? T
  : T extends readonly (infer Item)[]
    ? readonly (Checked<Item> | undefined)[]
    : T extends object
      ? { readonly [Key in keyof T]?: Checked<T[Key]> | undefined }
      : T;

/** A complete, immutable configuration. An absent key is left out instead of being undefined. */
export type Complete<T> = T extends
  | string
  | number
  | bigint
  | boolean
  | ReadonlyMap<unknown, unknown>
  | ((...args: never) => unknown)
  ? T
  : T extends readonly (infer Item)[]
    ? readonly Complete<Item>[]
    : { readonly [Key in keyof T]: Complete<Exclude<T[Key], undefined>> };

/**
 * Checks a value against a schema, reads the files that its keys name, and reports everything that is wrong with it.
 * `schema.parse` drops a whole table with one mistake, so the rules between its keys could not run.
 * @param folder that has the configuration file
 * @returns the value with the schema's keys. The value is complete if nothing is reported
 */
export async function checkShape<S extends z.ZodType>(
  schema: S,
  value: unknown,
  mistakes: MistakeList,
  folder: string,
): Promise<Checked<z.output<S>> | undefined> {
  return (await new ShapeCheck(folder).check(schema, value, mistakes.at())) as
    | Checked<z.output<S>>
    | undefined;
}

/** Returns a value that an earlier rule has required. */
export function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("a rule of the configuration accepted a missing value");
  return value;
}

/** Returns the option of a union that accepts a table or an array. */
export function optionFor(schema: z.ZodUnion, value: unknown): z.core.$ZodType | undefined {
  const kind = isTable(value) ? z.ZodObject : Array.isArray(value) ? z.ZodArray : undefined;
  return kind && schema.options.find((one) => one instanceof kind);
}

/** Returns the schema of a value that is present. */
export function withoutDefault(schema: z.core.$ZodType): z.core.$ZodType {
  const hasInner =
    schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault;
  return hasInner ? withoutDefault(schema.unwrap()) : schema;
}

/** Walk over a schema and a value. */
class ShapeCheck {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async check(declared: z.core.$ZodType, value: unknown, place: Place): Promise<unknown> {
    if (value === UNREADABLE) return undefined;
    const schema = withoutDefault(declared);
    if (value === undefined) {
      const absent = z.safeParse(declared, undefined);
      if (absent.success) return absent.data;
      place.report(`is missing; expected ${expected(schema)}`);
      return undefined;
    }
    if (schema instanceof z.ZodObject) return this.#checkTable(schema, value, place);
    if (schema instanceof z.ZodRecord) return this.#checkRecord(schema, value, place);
    if (schema instanceof z.ZodArray) {
      if (Array.isArray(value)) return this.#checkArray(schema, value, place);
    } else if (schema instanceof z.ZodUnion) {
      const option = optionFor(schema, value);
      if (option !== undefined) return this.check(option, value, place);
    }
    return this.#checkValue(schema, value, place);
  }

  async #checkArray(schema: z.ZodArray, value: readonly unknown[], place: Place): Promise<unknown[]> {
    const anyOfThisLength = schema.clone({ ...schema.def, element: z.unknown() });
    if (!z.safeParse(anyOfThisLength, value).success) {
      const found = value.length === 0 ? "is empty" : `has ${value.length} entries`;
      place.report(`${found}; expected ${expected(schema)}`);
    }
    return Promise.all(value.map((item, i) => this.check(schema.element, item, place.at(i))));
  }

  async #checkValue(schema: z.core.$ZodType, value: unknown, place: Place): Promise<unknown> {
    const result = z.safeParse(schema, value);
    if (result.success) {
      const { file } = notesOf(schema);
      return file === undefined ? result.data : this.#read(result.data as NamedFile, schema, place);
    }
    const { found, hint, suggestion } = describeWrong(schema, value, place.origin);
    place.report(`${found}; ${hint}`, suggestion);
    return undefined;
  }

  async #checkTable(
    schema: z.ZodObject,
    value: unknown,
    place: Place,
  ): Promise<Record<string, unknown> | undefined> {
    if (!isTable(value)) {
      place.report(`is ${kindOf(value)}; expected a table`);
      return undefined;
    }
    const names = Object.keys(schema.shape);
    const known = names.map(fileKey);
    for (const [key, item] of Object.entries(value)) {
      if (known.includes(key)) continue;
      const suggestion = closestWord(key, known);
      const isOfTable = [item].flat().some(isTable);
      const at = place.at(key);
      const path = at.path.filter((part) => typeof part === "string").join(".");
      // The table or key may belong to a part that was deleted from this build.
      const absent =
        isOfTable || suggestion === undefined
          ? `: this build has no ${isOfTable ? "table" : "key"} ${path}; expected one of ${known.join(", ")}`
          : "";
      at.report(
        `is not a known key${absent}${suggestion ? `; did you mean ${suggestion}?` : ""}`,
        suggestion,
      );
    }
    const checked: Record<string, unknown> = {};
    for (const [i, name] of names.entries()) {
      const key = known[i] as string;
      const item = await this.check(schema.shape[name] as z.ZodType, value[key], place.at(key));
      if (item !== undefined) checked[name] = item;
    }
    return checked;
  }

  async #checkRecord(
    schema: z.ZodRecord,
    value: unknown,
    place: Place,
  ): Promise<Record<string, unknown> | undefined> {
    if (!isTable(value)) {
      place.report(`is ${kindOf(value)}; expected ${expected(schema)}`);
      return undefined;
    }
    const checked: Record<string, unknown> = {};
    for (const [key, item] of Object.entries(value)) {
      const isValidKey = z.safeParse(schema.keyType, key).success;
      if (!isValidKey) {
        const { hint, suggestion } = describeWrong(schema.keyType, key);
        place.at(key).report(`is not a valid key; ${hint}`, suggestion);
      }
      const checkedItem = await this.check(schema.valueType, item, place.at(key));
      if (isValidKey) checked[key] = checkedItem;
    }
    return checked;
  }

  /** Reads the file that a key of this kind names. */
  async #read({ path }: NamedFile, schema: z.core.$ZodType, place: Place): Promise<NamedFile | undefined> {
    const { from, isSecret } = required(notesOf(schema).file);
    const file = from === "process" ? path : pathFrom(this.#folder, path);
    const text = await readNamedFile(file, { place, expected: expected(schema), isSecret });
    return text === undefined ? undefined : { path, text };
  }
}
