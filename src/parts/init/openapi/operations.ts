import { parseDollars } from "../../../core/amounts.ts";
import { BodySchema, isJsonType, SchemaProblem } from "../../../core/body-schema.ts";
import { BOUND_HEADERS, isEndToEnd, NEVER_FORWARDED } from "../../../core/job-call.ts";
import { defined, isObject } from "../../../core/objects.ts";
import type { RouteDetails } from "../new-config.ts";
import { DescriptionProblem, type OpenApiDocument, resolved } from "./document.ts";
import { readParameters } from "./parameters.ts";
import { routeOf } from "./paths.ts";
import { bodySchema } from "./schemas.ts";

/** Methods of routes. OpenAPI's other methods cannot be sold. */
const METHODS = ["get", "post", "put", "patch", "delete"] as const;
const MEDIA_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/;
const MAX_NAME = 63;
const MAX_TITLE = 128;
const MAX_DESCRIPTION = 4_000;
const MAX_FORWARDED = 32;
/** Greatest number of characters shown of a value that cannot be used. */
const MAX_SHOWN = 200;

/** An operation that can be sold at a route. */
export interface DescribedRoute {
  /** As the configuration has it: `GET /weather/{city}`. */
  readonly route: string;
  /** Price in dollars, from the description. */
  readonly price?: string;
  /** Reason why its price is not used. Completes "its x-payment-info …". */
  readonly ignoredPrice?: string;
  readonly details: RouteDetails;
}

/** An operation that cannot be sold, or a part of it that jobgate cannot check. */
export interface Finding {
  readonly operation: string;
  /** Completes "the operation …". */
  readonly reason: string;
}

/** An API as read from its description. */
export interface DescribedApi {
  readonly title?: string;
  /** URL that the paths are appended to. */
  readonly url?: string;
  readonly routes: readonly DescribedRoute[];
  readonly leftOut: readonly Finding[];
}

type Fields = Readonly<Record<string, unknown>>;

/** Reads the operations of a description, in its order. */
export async function describedApi(document: OpenApiDocument): Promise<DescribedApi> {
  const { info, paths } = document.content;
  const routes: DescribedRoute[] = [];
  const leftOut: Finding[] = [];
  const names = new Set<string>();
  if (paths !== undefined && !isObject(paths))
    leftOut.push({ operation: "paths", reason: "are not an object, so there are no operations" });
  for (const [path, item] of Object.entries(isObject(paths) ? paths : {})) {
    if (!path.startsWith("/")) continue;
    for (const method of METHODS) {
      const operation = `${method.toUpperCase()} ${path}`;
      try {
        const shared = resolved(document, item);
        if (shared?.[method] === undefined) continue;
        const own = resolved(document, shared[method]);
        if (own === undefined) throw new DescriptionProblem("is not an object");
        const { route, renamed } = routeOf(method.toUpperCase(), path);
        const name = freeName(nameOf(own, operation), names);
        const details = await readDetails({ document, shared, own, name, route, renamed });
        names.add(name);
        routes.push(defined({ route, ...priceOf(own), details }));
      } catch (error) {
        // Schemas that are nested ten thousand levels deep overflow the stack.
        const isTooDeep = error instanceof RangeError;
        if (!(error instanceof DescriptionProblem || isTooDeep)) throw error;
        leftOut.push({
          operation,
          reason: isTooDeep ? "has a schema that is nested too deeply" : error.message,
        });
      }
    }
  }
  const title = isObject(info) ? oneLine(info.title, MAX_TITLE) : undefined;
  return defined({ title, url: urlOf(document), routes, leftOut });
}

async function readDetails(operation: {
  readonly document: OpenApiDocument;
  readonly shared: Fields;
  readonly own: Fields;
  readonly name: string;
  readonly route: string;
  readonly renamed: ReadonlyMap<string, string>;
}): Promise<RouteDetails> {
  const { document, shared, own, name, route, renamed } = operation;
  const { query, headers } = await readParameters(document, [shared.parameters, own.parameters], renamed);
  const forwarded = headers.filter(
    (header) =>
      isEndToEnd(header) &&
      !BOUND_HEADERS.includes(header) &&
      !NEVER_FORWARDED.some(({ names }) => names.test(header)),
  );
  return defined({
    name,
    title: oneLine(own.summary, MAX_TITLE),
    description: prose(own.description),
    tags: tagsOf(own.tags),
    isIdempotent: route.startsWith("POST ") ? headers.includes("idempotency-key") : undefined,
    forwardHeaders:
      forwarded.length > 0 ? [...BOUND_HEADERS, ...forwarded].slice(0, MAX_FORWARDED) : undefined,
    query,
    input: /^(POST|PUT|PATCH) /.test(route) ? await inputOf(document, own.requestBody) : undefined,
    outputType: outputTypeOf(document, own.responses),
  });
}

/** Reads the body of a request. A schema that jobgate cannot check is left out, and the API checks the body. */
async function inputOf(document: OpenApiDocument, requestBody: unknown): Promise<RouteDetails["input"]> {
  const body = resolved(document, requestBody);
  const media = isObject(body?.content) ? body.content : {};
  const types = Object.keys(media);
  const type = types.find(isJsonType) ?? types[0];
  if (type === undefined || !MEDIA_TYPE.test(type)) return undefined;
  const content = resolved(document, media[type]) ?? {};
  const example = exampleOf(document, content);
  if (!isJsonType(type)) return defined({ contentType: type, example: textOf(example) });
  const json = example === undefined ? undefined : JSON.stringify(example, null, 2);
  try {
    const schema = content.schema === undefined ? undefined : bodySchema(document, content.schema);
    const text = schema === undefined ? undefined : JSON.stringify(schema, null, 2);
    const compiled = text === undefined ? undefined : await BodySchema.compile(text);
    const fits = json === undefined || (compiled?.check(Buffer.from(json)).length ?? 0) === 0;
    // The API checks a body that is optional or can have another type.
    const isJson = types.every((one) => /json/i.test(one));
    const isRequired = body?.required === true || compiled?.check(Buffer.from("{}")).length !== 0;
    return defined({
      contentType: type,
      schema: isJson && isRequired ? text : undefined,
      example: fits ? json : undefined,
    });
  } catch (error) {
    if (!(error instanceof SchemaProblem || error instanceof DescriptionProblem)) throw error;
    return { contentType: type };
  }
}

/** Returns the example of a media type, or of its schema. */
function exampleOf(document: OpenApiDocument, content: Fields): unknown {
  if (content.example !== undefined) return content.example;
  const [first] = Object.values(isObject(content.examples) ? content.examples : {});
  const named = first === undefined ? undefined : resolved(document, first);
  if (named?.value !== undefined) return named.value;
  const schema = isObject(content.schema) ? resolved(document, content.schema) : undefined;
  return schema?.example ?? (Array.isArray(schema?.examples) ? schema.examples[0] : undefined);
}

function textOf(example: unknown): string | undefined {
  return typeof example === "string" ? example : undefined;
}

function outputTypeOf(document: OpenApiDocument, responses: unknown): string | undefined {
  const good = Object.entries(isObject(responses) ? responses : {}).find(([status]) => /^2/.test(status));
  const answer = good && resolved(document, good[1]);
  return Object.keys(isObject(answer?.content) ? answer.content : {}).find((type) => MEDIA_TYPE.test(type));
}

/** Returns the URL of the first server, which can be relative to the description's own. */
function urlOf({ content, url }: OpenApiDocument): string | undefined {
  const [server] = Array.isArray(content.servers) ? content.servers : [];
  const { url: template = "/", variables } = isObject(server) ? server : {};
  const text = String(template).replace(/\{([^{}]+)\}/g, (whole, name: string) => {
    const variable = isObject(variables) ? variables[name] : undefined;
    return isObject(variable) && variable.default !== undefined ? String(variable.default) : whole;
  });
  if (!URL.canParse(text, url)) return undefined;
  const { protocol, origin, pathname } = new URL(text, url);
  return /^https?:$/.test(protocol) ? `${origin}${pathname.replace(/\/+$/, "")}` : undefined;
}

/** Reads the price that discovery libraries write: `x-payment-info.price` of mode `fixed` in dollars. */
function priceOf({ "x-payment-info": info }: Fields): Pick<DescribedRoute, "price" | "ignoredPrice"> {
  if (info === undefined) return {};
  const { mode, currency, amount } = isObject(info) && isObject(info.price) ? info.price : {};
  const price = `$${typeof amount === "number" || typeof amount === "string" ? amount : ""}`;
  if (mode === "fixed" && currency === "USD" && parseDollars(price) !== undefined) return { price };
  const found = JSON.stringify(isObject(info) ? info.price : info)?.slice(0, MAX_SHOWN) ?? "nothing";
  const expected = 'expected mode "fixed", currency "USD" and an amount of dollars, such as "0.01"';
  return { ignoredPrice: `has ${found} as price; ${expected}` };
}

function nameOf({ operationId }: Fields, operation: string): string {
  const words = typeof operationId === "string" ? operationId : operation;
  const name = words
    .replace(/([a-z0-9])(?=[A-Z])/g, "$1-")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");
  return name.slice(0, MAX_NAME) || "operation";
}

function freeName(name: string, taken: ReadonlySet<string>): string {
  for (let i = 1; ; i++) {
    const end = i === 1 ? "" : `-${i}`;
    const free = `${name.slice(0, MAX_NAME - end.length)}${end}`;
    if (!taken.has(free)) return free;
  }
}

/**
 * Returns true for a text that the configuration would replace by a variable or a file. A description must not read
 * variables and files.
 */
const isReference = (text: string) => /^(env|file):/.test(text);

function oneLine(value: unknown, most: number): string | undefined {
  if (typeof value !== "string") return undefined;
  const text = cut(value.replace(/\p{Cc}+/gu, " ").trim(), most);
  return text === "" || isReference(text) ? undefined : text;
}

function prose(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  const text = cut(value.replace(/(?![\n\t])\p{Cc}+/gu, "").trim(), MAX_DESCRIPTION);
  return text === "" || isReference(text) ? undefined : text;
}

/** Cuts a text without splitting a surrogate pair. */
function cut(text: string, most: number): string {
  return text.slice(0, most).replace(/[\uD800-\uDBFF]$/, "");
}

function tagsOf(value: unknown): readonly string[] | undefined {
  const tags = Array.isArray(value) ? value.flatMap((tag) => oneLine(tag, MAX_TITLE) ?? []) : [];
  return tags.length === 0 ? undefined : tags;
}
