import * as z from "zod";
import { isTable } from "./config-files.ts";
import type { FileReading } from "./named-files.ts";

/** Form in which operators see a value. */
export type Scalar = string | number | boolean;

/** Tables of a file that decide whether a reload changes a key. */
export interface TablesOfFile {
  readonly x402?: { readonly priceSource: unknown };
}

/** Returns true if a reload may change a value from the value in use to the next. */
export type MayChange = (
  used: unknown,
  next: unknown,
  files: { readonly used: TablesOfFile; readonly next: TablesOfFile },
) => boolean;

/** Abilities of parts that values of a key need. */
export interface Need<Value> {
  /**
   * Returns the name of the ability, as mistakes name it (`this build has no failover`); undefined if the value needs no
   * ability.
   */
  readonly abilityFor: (value: Value) => string | undefined;
  /** Completes "expected …" in a build without the ability. */
  readonly otherwise: string;
}

/**
 * Notes on a kind of value beyond what it accepts. A value may be a secret. So a mistake never quotes a value whose
 * kind has no `shown`, and operators never see a value whose kind has no `view`.
 */
export interface ValueNotes<Value> {
  /**
   * Returns the part of a valid value that operators see, as the file spells it. Undefined if they see only that there is a
   * value.
   */
  readonly view?: (value: Value) => Scalar;
  /** Undefined if a reload can change each value to any other. */
  readonly mayChange?: MayChange;
  /** Undefined if no value needs a part. */
  readonly needs?: Need<Value>;
  /** Instructions for reading the file that the key names. Undefined if the key does not name a file. */
  readonly file?: FileReading;
  /** Returns the part of a wrong text that is not secret. */
  readonly shown?: (text: string) => string;
  /** Says what is wrong with a text, without quoting it: `has 39 hex digits`. May end with an "; expected …" of its own. */
  readonly fault?: (text: string) => string | undefined;
  /** Returns values that a wrong text may have been meant as. Only valid values are suggested. */
  readonly near?: (text: string) => readonly (string | number | undefined)[];
}

/** Notes of a kind whose values are not secret. */
export const SHOWN = {
  view: (value: Scalar) => value,
  shown: (text: string) => text,
} as const satisfies ValueNotes<Scalar>;

/** Notes of a kind whose values are secret. */
export const SECRET = {} as const satisfies ValueNotes<never>;

/**
 * Names a kind of value.
 * @param expected completes "expected …" and lists all accepted values
 */
export function kind<S extends z.ZodType>(schema: S, expected: string, notes: ValueNotes<z.output<S>>): S {
  return schema.meta({ description: expected, ...notes });
}

/** Marks a key of the core with values that need an ability of a part. */
export const needs = <S extends z.ZodType>(need: Need<z.output<S>>, schema: S): S =>
  schema.meta({ needs: need } satisfies ValueNotes<never>);

/** Completes "expected …" in a mistake. */
export function expected(schema: z.core.$ZodType): string {
  return (schema as z.ZodType).description ?? "a table";
}

/**
 * Describes a wrong value, its fault, and the values that its kind accepts.
 * @param origin where the value comes from, if it is not in the configuration file itself; such a value is not quoted
 */
export function describeWrong(
  schema: z.core.$ZodType,
  value: unknown,
  origin?: string,
): { readonly found: string; readonly hint: string; readonly suggestion?: string | undefined } {
  const notes = notesOf(schema);
  const part = isScalar(value) ? notes.shown?.(literalText(value)) : undefined;
  const shown = part === undefined || origin !== undefined || mayBeSecret(part) ? undefined : part;
  const isText = typeof value === "string" && value !== "";
  const [reason, ownHint] = (isText && notes.fault?.(value)?.split("; ")) || [];
  const near = shown === undefined || ownHint !== undefined ? undefined : nearestValid(schema, value, notes);
  const isFloat = typeof value === "number" && typeof near === "bigint";
  const found = isText
    ? foundText(value, shown, reason)
    : `is ${foundLiteral(value, shown)}${isFloat ? ", which is a float" : ""}`;
  const hint = ownHint ?? `expected ${expected(schema)}`;
  return {
    found: origin === undefined ? found : `${found} (${origin})`,
    hint: near === undefined ? hint : `${hint}; did you mean ${spelled(near, value)}?`,
    suggestion: near === undefined ? undefined : String(near),
  };
}

/** Names the kind of a TOML value. */
export function kindOf(value: unknown): string {
  if (value === "") return "an empty string";
  if (typeof value === "string") return "a string";
  if (typeof value === "bigint") return "an integer";
  if (typeof value === "number") return "a number with a fraction";
  if (typeof value === "boolean") return "true or false";
  if (Array.isArray(value)) return "an array";
  return isTable(value) ? "a table" : "a date or time";
}

/** Returns the notes of a kind. A union has the notes of its only option that is neither an array nor a table. */
export function notesOf(schema: z.core.$ZodType): ValueNotes<unknown> {
  const notes = ((schema as z.ZodType).meta() ?? {}) as ValueNotes<unknown>;
  if (notes.shown !== undefined || notes.fault !== undefined || !(schema instanceof z.ZodUnion)) return notes;
  const single = schema.options.find((one) => !(one instanceof z.ZodArray || one instanceof z.ZodObject));
  return single === undefined ? notes : notesOf(single);
}

function foundText(text: string, shown: string | undefined, reason: string | undefined): string {
  if (shown === undefined) return reason ?? `is a string of ${text.length} characters`;
  return `is ${quoted(shown)}${reason === undefined ? "" : `, which ${reason}`}`;
}

function foundLiteral(value: unknown, shown: string | undefined): string {
  return value === "" ? kindOf(value) : (shown ?? kindOf(value));
}

/** Returns a number as TOML spells it, and any other value as text. */
function literalText(value: string | number | bigint | boolean): string {
  if (typeof value !== "number") return String(value);
  return String(value)
    .replace("Infinity", "inf")
    .replace("NaN", "nan")
    .replace(/^-?[0-9]+$/, "$&.0");
}

function isScalar(value: unknown): value is string | number | bigint | boolean {
  return ["string", "number", "bigint", "boolean"].includes(typeof value);
}

/** Returns true for a UUID, for PEM, and for a run of letters and digits that looks like a key or token. An address is not secret. */
function mayBeSecret(text: string): boolean {
  const isKey = (run: string) =>
    /[0-9]/.test(run) && /[a-z]/i.test(run) && !/^(0x)?[0-9a-f]{0,44}$/i.test(run);
  return (
    (text.match(/[A-Za-z0-9+/_=]{20,}/g) ?? []).some(isKey) ||
    /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|-----BEGIN/i.test(text)
  );
}

const MAX_QUOTED_LENGTH = 64;

function quoted(text: string): string {
  return JSON.stringify(text.length > MAX_QUOTED_LENGTH ? `${text.slice(0, MAX_QUOTED_LENGTH)}…` : text);
}

function nearestValid(
  schema: z.core.$ZodType,
  value: unknown,
  { near }: ValueNotes<unknown>,
): string | number | bigint | boolean | undefined {
  const text = String(value).trim();
  const candidates = [...unquoted(text), text, text.toLowerCase(), ...(near?.(text) ?? [])];
  return candidates.find((one) => one !== undefined && z.safeParse(schema, one).success);
}

/** Returns the value that a text would have without its quotes. */
function unquoted(text: string): (bigint | number | boolean)[] {
  if (/^-?[0-9]+$/.test(text)) return [BigInt(text)];
  if (/^-?[0-9]+\.[0-9]+$/.test(text)) return [Number(text)];
  return text === "true" || text === "false" ? [text === "true"] : [];
}

function spelled(near: string | number | bigint | boolean, value: unknown): string {
  if (typeof near !== "string") return typeof value === "string" ? `${near} without quotes` : String(near);
  return typeof value !== "string" && near === String(value) ? `${quoted(near)} in quotes` : quoted(near);
}
