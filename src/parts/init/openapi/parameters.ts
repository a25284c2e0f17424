import { BodySchema, SchemaProblem } from "../../../core/body-schema.ts";
import { isObject } from "../../../core/objects.ts";
import type { Parameters } from "../../../core/parameters.ts";
import { DescriptionProblem, type OpenApiDocument, resolved } from "./document.ts";
import { parameterSchema } from "./schemas.ts";

/** Keys of `query` in the configuration that are not names of fields. */
const RESERVED = ["required", "additionalProperties"];
const FIELD = /^[\x21-\x7e]{1,128}$/;

type Fields = Readonly<Record<string, unknown>>;

/** Parameters of an operation, without its body. */
export interface ReadParameters {
  /** Schemas of path and query; undefined if there are none. */
  readonly query: Pick<Parameters, "properties" | "required"> | undefined;
  /** Names of headers in lower case. */
  readonly headers: readonly string[];
}

/**
 * Reads the parameters of an operation.
 * @param lists parameters of the path, then parameters of the operation, which replace parameters of the same name
 * @param renamed names of the route by the names of the description
 */
export async function readParameters(
  document: OpenApiDocument,
  lists: readonly unknown[],
  renamed: ReadonlyMap<string, string>,
): Promise<ReadParameters> {
  const parameters = new Map<string, Fields>();
  for (const one of lists.flatMap((list) => (Array.isArray(list) ? list : []))) {
    const parameter = resolved(document, one);
    if (typeof parameter?.name === "string") parameters.set(`${parameter.in} ${parameter.name}`, parameter);
  }
  const all = [...parameters.values()];
  const properties: Record<string, object> = {};
  const required: string[] = [];
  for (const parameter of all) {
    const place = parameter.in;
    const name = place === "path" ? renamed.get(String(parameter.name)) : String(parameter.name);
    if (name === undefined || !(place === "path" || place === "query") || !FIELD.test(name)) continue;
    if (RESERVED.includes(name) || Object.hasOwn(properties, name) || isSpread(document, parameter)) continue;
    if (place === "query" && [...renamed.values()].includes(name)) continue;
    properties[name] = await schemaOf(document, parameter);
    if (place === "query" && parameter.required === true) required.push(name);
  }
  const headers = all.filter((one) => one.in === "header").map((one) => String(one.name).toLowerCase());
  return {
    query: Object.keys(properties).length === 0 ? undefined : { properties, required },
    headers: [...new Set(headers)],
  };
}

/** Reports whether a parameter is an object. The properties of an object are fields with names of their own. */
function isSpread(document: OpenApiDocument, { schema, style }: Fields): boolean {
  return style === "deepObject" || resolved(document, schema)?.type === "object";
}

/**
 * Returns the schema of a parameter. If jobgate would read the parameter's text differently from the API, returns a
 * schema that accepts every text.
 */
async function schemaOf(document: OpenApiDocument, parameter: Fields): Promise<object> {
  const { in: place, style = place === "path" ? "simple" : "form", explode = style === "form" } = parameter;
  const about = typeof parameter.description === "string" ? { description: parameter.description } : {};
  try {
    const schema = parameterSchema(document, parameter.schema ?? {});
    const isList = "type" in schema && schema.type === "array";
    const isJoined = isList && !(place === "query" && style === "form" && explode === true);
    const isAnyText = isJoined || parameter.allowEmptyValue === true;
    const full = isAnyText ? about : { ...about, ...exampleOf(parameter), ...schema };
    const text = JSON.stringify(full);
    // The configuration would read such a string from a variable, a file or another schema.
    if (/"(?:env|file):|"\$(?:ref|dynamicRef|id)":/.test(text)) return {};
    await compiled(document, JSON.stringify(schema));
    return full;
  } catch (error) {
    if (!(error instanceof SchemaProblem || error instanceof DescriptionProblem)) throw error;
    return {};
  }
}

/** Compiled schemas by description, because compiling is slow and most parameters share a few schemas. */
const known = new WeakMap<OpenApiDocument, Map<string, Promise<unknown>>>();

/** @throws SchemaProblem */
async function compiled(document: OpenApiDocument, text: string): Promise<void> {
  const schemas = known.get(document) ?? new Map<string, Promise<unknown>>();
  known.set(document, schemas);
  const compiling = schemas.get(text) ?? BodySchema.compile(text);
  schemas.set(text, compiling);
  await compiling;
}

function exampleOf({ example, examples }: Fields): object {
  const [first] = Object.values(isObject(examples) ? examples : {});
  const value = example ?? (isObject(first) ? first.value : undefined);
  return value === undefined || value === null ? {} : { examples: [value] };
}
