import { roundsToInteger } from "./json-numbers.ts";
import { parameterNames, type Route } from "./route.ts";

/** Parameters that a job with a route accepts in its path and query, as configured. */
export interface Parameters {
  /** JSON Schemas of the path's parameters and of the query's fields, by name. */
  readonly properties: Readonly<Record<string, object>>;
  /** Fields that each query must have. */
  readonly required: readonly string[];
  /** If false, a query that has a field without a schema is refused. */
  readonly additionalProperties: boolean;
}

/** Parameters of a job whose configuration lists none. */
export const NO_PARAMETERS: Parameters = { properties: {}, required: [], additionalProperties: true };

/** JSON Schema of an object. */
interface ObjectSchema {
  readonly type: "object";
  readonly properties: Parameters["properties"];
  readonly required: readonly string[];
  readonly additionalProperties: boolean;
}

/** Problem with one parameter of a request. */
interface ParameterProblem {
  readonly path: string;
  readonly message: string;
}

type Named = readonly (readonly [name: string, value: string])[];

/** Returns the JSON Schema of a route's parameters. Parameters that the configuration does not list are strings. */
export function pathSchema(route: Route, { properties }: Pick<Parameters, "properties">): ObjectSchema {
  const names = parameterNames(route);
  const schemas = names.map((name) => [name, ownOf(properties, name) ?? { type: "string" }] as const);
  return {
    type: "object",
    properties: Object.fromEntries(schemas),
    required: names,
    additionalProperties: false,
  };
}

/** Returns the JSON Schema of a route's query. */
export function querySchema(route: Route, parameters: Parameters): ObjectSchema {
  const inPath = new Set(parameterNames(route));
  const own = Object.entries(parameters.properties).filter(([name]) => !inPath.has(name));
  const { required, additionalProperties } = parameters;
  return { type: "object", properties: Object.fromEntries(own), required, additionalProperties };
}

/** Reads the parameters of requests at one route as JSON that a schema can check. */
export class ParameterReader {
  /** JSON Schema of the values that {@link read} returns. */
  readonly schema: object;
  readonly #path: ObjectSchema;
  readonly #query: ObjectSchema;

  constructor(route: Route, parameters: Parameters) {
    this.#path = pathSchema(route, parameters);
    this.#query = querySchema(route, parameters);
    this.schema = { type: "object", properties: { path: this.#path, query: this.#query } };
  }

  /**
   * Reads a request's parameters. Query fields that accept any value are left out.
   * @param params decoded parameters of the path
   * @returns a value for the schema, or the field that was sent more than once
   */
  read(params: Named, query: string): { readonly json: string } | ParameterProblem {
    const fields = new Map<string, string[]>();
    for (const [name, value] of new URLSearchParams(query))
      fields.set(name, [...(fields.get(name) ?? []), value]);
    const read: [string, unknown][] = [];
    for (const [name, values] of fields) {
      const schema = ownOf(this.#query.properties, name);
      if (schema === undefined && this.#query.additionalProperties) continue;
      if (typesOf(schema).includes("array"))
        read.push([name, values.map((value) => typed(value, itemsOf(schema)))]);
      else if (values.length > 1) return { path: pointerTo(name), message: "is there more than once" };
      else read.push([name, typed(values[0] ?? "", schema)]);
    }
    const path = params.map(
      ([name, value]) => [name, typed(value, ownOf(this.#path.properties, name))] as const,
    );
    return { json: JSON.stringify({ path: Object.fromEntries(path), query: Object.fromEntries(read) }) };
  }
}

function ownOf<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

function pointerTo(name: string): string {
  return `/query/${name.replaceAll("~", "~0").replaceAll("/", "~1").slice(0, 100)}`;
}

function typesOf(schema: unknown): readonly unknown[] {
  return [(schema as { readonly type?: unknown } | undefined)?.type].flat();
}

function itemsOf(schema: unknown): unknown {
  return (schema as { readonly items?: unknown } | undefined)?.items;
}

const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$/;

/** Converts a text to the type that a schema names. Any other text stays text, so that the schema rejects it. */
function typed(text: string, schema: unknown): string | number | boolean {
  const types = typesOf(schema);
  const isNumber = NUMBER.test(text) && (types.includes("number") || types.includes("integer"));
  // Another program that reads more digits could see another number.
  const isRead = isNumber && Math.abs(Number(text)) <= Number.MAX_SAFE_INTEGER && !roundsToInteger(text);
  if (isRead) return Number(text);
  if (types.includes("boolean") && (text === "true" || text === "false")) return text === "true";
  return text;
}
