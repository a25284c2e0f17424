import type { JobBody } from "../../config/config.ts";
import { isJsonType } from "../../core/body-schema.ts";
import { isObject, parseJson } from "../../core/objects.ts";

/** Keywords whose values are schemas by name. */
const NAMED = new Set(["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"]);
/** Keywords whose values are data that may look like a schema. */
const DATA = new Set(["const", "enum", "default", "example", "examples"]);

/** Base URI for references in a schema without an `$id`. */
const NO_BASE = "http://schema.invalid/";

/** Returns the JSON Schema of a job's body; undefined if the job has no schema. */
export function jsonSchemaOf({ schema }: JobBody): unknown {
  return schema === undefined ? undefined : JSON.parse(schema);
}

/** Returns the example of a job's body: a JSON value, or text of another media type. */
export function bodyExample({ contentType, example }: JobBody): unknown {
  const json = example !== undefined && isJsonType(contentType) ? parseJson(example) : undefined;
  return json === undefined ? example : json;
}

/**
 * Returns the JSON Schema of a job's body for a place in another document, where `#` is that document.
 * @param pointer JSON pointer to the place
 * @param pointerTo returns the pointer of a part of the schema; default: below the place
 */
export function embeddedSchema(
  input: JobBody,
  pointer: string,
  pointerTo = (part: string) => `${pointer}${part}`,
): unknown {
  const schema = jsonSchemaOf(input);
  if (!isObject(schema)) return schema;
  const { $id, $schema: _dialect, ...keywords } = schema;
  const name = typeof $id === "string" && URL.canParse($id, NO_BASE) ? $id : "";
  const base = new URL(name, NO_BASE).href.split("#")[0] as string;
  return moveReferences(keywords, (reference) => {
    const [document, fragment = ""] = URL.canParse(reference, base)
      ? new URL(reference, base).href.split("#")
      : [];
    if (document !== base) return reference;
    if (fragment === "") return `#${pointer}`;
    return `#${fragment.startsWith("/") ? pointerTo(fragment) : fragment}`;
  });
}

function moveReferences(schema: unknown, move: (reference: string) => string): unknown {
  if (Array.isArray(schema)) return schema.map((item) => moveReferences(item, move));
  // References in a schema with an `$id` are relative to that `$id`.
  if (!isObject(schema) || typeof schema.$id === "string") return schema;
  return mapValues(schema, (value, keyword) => {
    if ((keyword === "$ref" || keyword === "$dynamicRef") && typeof value === "string") return move(value);
    if (DATA.has(keyword)) return value;
    if (NAMED.has(keyword) && isObject(value))
      return mapValues(value, (named) => moveReferences(named, move));
    return moveReferences(value, move);
  });
}

function mapValues(object: object, change: (value: unknown, key: string) => unknown): object {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value, key)]));
}
