import { isObject } from "../../../core/objects.ts";
import { type OpenApiDocument, valueAt } from "./document.ts";

type Schema = Readonly<Record<string, unknown>>;

/** Keywords whose values are schemas by name. */
const NAMED = new Set(["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"]);
/** Keywords whose values are data, which are kept even if they look like a schema. */
const DATA = new Set(["const", "enum", "default", "examples", "required", "dependentRequired"]);
/** Keywords that only OpenAPI has, and `$schema`, because the dialect is always 2020-12 here. */
const OF_OPENAPI = new Set(["$schema", "discriminator", "xml", "externalDocs", "example", "nullable"]);
/** Keywords that combine schemas. */
const JOINING = ["allOf", "anyOf", "oneOf", "not", "if", "$dynamicRef"];

/** Returns the JSON Schema 2020-12 of a request's body, with the schemas that it refers to as `$defs`. */
export function bodySchema(document: OpenApiDocument, schema: unknown): unknown {
  const names = new Map<string, string>();
  const refer = (reference: string): Schema => {
    const name = names.get(reference) ?? freeName(reference, [...names.values()]);
    names.set(reference, name);
    return { $ref: `#/$defs/${name}` };
  };
  const whole = converted(schema, refer);
  const definitions: Record<string, unknown> = {};
  // Converting a schema can add names. The loop visits the added names too.
  for (const [reference, name] of names) definitions[name] = converted(valueAt(document, reference), refer);
  return names.size > 0 && isObject(whole) ? { ...whole, $defs: definitions } : whole;
}

function freeName(reference: string, taken: readonly string[]): string {
  const name = (reference.split("/").at(-1) ?? "").replace(/[^A-Za-z0-9_.-]/g, "_");
  for (let i = 1; ; i++) {
    const free = i === 1 ? name : `${name}-${i}`;
    if (!taken.includes(free)) return free;
  }
}

/**
 * Returns the JSON Schema of a parameter, without references, because jobgate reads the parameter's text as the type
 * that the schema names. A schema that names no single type is replaced by a schema that accepts every text.
 */
export function parameterSchema(document: OpenApiDocument, schema: unknown): Schema {
  const open: string[] = [];
  const inline = (reference: string): Schema => {
    if (open.includes(reference)) return {};
    open.push(reference);
    const found = converted(valueAt(document, reference), inline);
    open.pop();
    return isObject(found) ? found : {};
  };
  const whole = converted(schema, inline);
  return isObject(whole) ? typed(whole) : {};
}

/** Converts the keywords of OpenAPI to the keywords of JSON Schema 2020-12. */
function converted(schema: unknown, refer: (reference: string) => Schema): unknown {
  if (Array.isArray(schema)) return schema.map((one) => converted(one, refer));
  if (!isObject(schema)) return schema;
  const entries = Object.entries(schema).flatMap(([key, value]): (readonly [string, unknown])[] => {
    if (OF_OPENAPI.has(key) || key.startsWith("x-")) return [];
    if (key === "$ref" && typeof value === "string") return Object.entries(refer(value));
    if (DATA.has(key)) return [[key, value]];
    if (NAMED.has(key) && isObject(value)) {
      const named = Object.entries(value).map(([name, one]) => [name, converted(one, refer)] as const);
      return [[key, Object.fromEntries(named)]];
    }
    return [[key, converted(value, refer)]];
  });
  return withNull(withBounds(withRequired(Object.fromEntries(entries))), schema.nullable === true);
}

/** Drops required properties that only responses have (`readOnly`). */
function withRequired({ required, ...schema }: Schema): Schema {
  if (!Array.isArray(required)) return schema;
  const { properties } = schema;
  const ofAnswers = (name: string) => {
    const property = isObject(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
    return isObject(property) && property.readOnly === true;
  };
  const left = required.filter((name) => typeof name === "string" && !ofAnswers(name));
  return left.length === 0 ? schema : { ...schema, required: left };
}

/** Converts the exclusive bounds of OpenAPI 3.0 to JSON Schema: a number and a boolean become one number. */
function withBounds(schema: Schema): Schema {
  const { exclusiveMinimum, exclusiveMaximum, minimum, maximum, ...others } = schema;
  return {
    ...others,
    ...bound("inimum", minimum, exclusiveMinimum),
    ...bound("aximum", maximum, exclusiveMaximum),
  };
}

function bound(end: string, limit: unknown, exclusive: unknown): Schema {
  if (exclusive === true) return limit === undefined ? {} : { [`exclusiveM${end}`]: limit };
  return {
    ...(limit === undefined ? {} : { [`m${end}`]: limit }),
    ...(typeof exclusive === "number" ? { [`exclusiveM${end}`]: exclusive } : {}),
  };
}

function withNull(schema: Schema, isNullable: boolean): Schema {
  if (!isNullable) return schema;
  const { type, enum: values } = schema;
  if (typeof type !== "string") return type === undefined ? { anyOf: [schema, { type: "null" }] } : schema;
  const ofNull = Array.isArray(values) && !values.includes(null) ? { enum: [...values, null] } : {};
  return { ...schema, type: [type, "null"], ...ofNull };
}

const isNull = (schema: unknown) => isObject(schema) && schema.type === "null";

/** Reduces the schema of a parameter to a schema with one type, or to a schema that accepts every text. */
function typed(schema: Schema): Schema {
  const { anyOf, oneOf, allOf, ...own } = schema;
  const choices = [anyOf, oneOf, allOf].find(Array.isArray)?.filter((one) => !isNull(one)) ?? [];
  const [only] = choices;
  if (choices.length === 1 && isObject(only)) return typed({ ...only, ...own });
  const about = typeof schema.description === "string" ? { description: schema.description } : {};
  if (JOINING.some((keyword) => Object.hasOwn(schema, keyword))) return about;
  const types = [
    schema.type ?? typesOf(schema.enum ?? (Object.hasOwn(schema, "const") ? [schema.const] : [])),
  ]
    .flat()
    .filter((type) => type !== "null");
  const [type] = types;
  if (types.length !== 1 || type === "object") return about;
  const items = isObject(schema.items) ? { items: typed(schema.items) } : {};
  return { ...schema, type, ...items };
}

/** Returns the JSON types of values, each once. */
function typesOf(values: unknown): readonly string[] {
  const names = [values].flat().map((value) => (value === null ? "null" : typeof value));
  return [...new Set(names)];
}
