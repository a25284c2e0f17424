import { isLosslessNumber, type LosslessNumber, stringify } from "lossless-json";
import * as z from "zod";
import type { JobBody } from "../../config/config.ts";
import { isJsonType } from "../../core/body-schema.ts";
import { NO_PARAMETERS, type Parameters, querySchema } from "../../core/parameters.ts";
import {
  parameterNames,
  type Route,
  type RouteMethod,
  type RouteSegment,
  routeText,
  takesBody,
} from "../../core/route.ts";
import { paramsAs, RPC, RpcError } from "../protocols/json-rpc.ts";
import type { MessageInput } from "../protocols/message-request.ts";
import { embeddedSchema } from "./job-body.ts";

const VALUE = { type: ["string", "number", "boolean"] };
const value = z.union([z.string(), z.number(), z.boolean(), z.custom<LosslessNumber>(isLosslessNumber)]);
const argumentsShape = z.strictObject({
  path: z.record(z.string(), value).default({}),
  query: z.record(z.string(), z.union([value, z.array(value)])).default({}),
  body: z.unknown().optional(),
});

/** Returns the JSON Schema of the arguments of a tool that is sold at a route. The arguments are the parts of the request. */
export function routeSchema(
  route: Route,
  input: JobBody | undefined,
  parameters: Parameters = NO_PARAMETERS,
): object {
  const { methods, segments } = route;
  const inPath = segments.flatMap((segment) => (segment.kind === "literal" ? [] : segment));
  const path = {
    type: "object",
    properties: Object.fromEntries(
      inPath.map((segment) => [
        segment.name,
        Object.hasOwn(parameters.properties, segment.name)
          ? parameters.properties[segment.name]
          : parameterSchema(segment),
      ]),
    ),
    required: inPath.map(({ name }) => name),
    additionalProperties: false,
  };
  const { required, additionalProperties, ...query } = querySchema(route, parameters);
  const needsBody = input !== undefined && methods.every(takesBody);
  const needed = [
    ...(inPath.length > 0 ? ["path"] : []),
    ...(required.length > 0 ? ["query"] : []),
    ...(needsBody ? ["body"] : []),
  ];
  return {
    type: "object",
    properties: {
      ...(inPath.length > 0 && { path }),
      query: {
        ...query,
        ...(required.length > 0 && { required }),
        additionalProperties: additionalProperties && { anyOf: [VALUE, { type: "array", items: VALUE }] },
      },
      ...(methods.some(takesBody) && { body: bodySchema(input) }),
    },
    ...(needed.length > 0 && { required: needed }),
    additionalProperties: false,
  };
}

function parameterSchema({ kind }: Exclude<RouteSegment, { kind: "literal" }>): object {
  if (kind === "one") return VALUE;
  return { type: "string", description: "One or more segments of the path, joined by /" };
}

function bodySchema(input: JobBody | undefined): unknown {
  if (input?.schema !== undefined) return embeddedSchema(input, "/properties/body");
  if (input === undefined) return { description: "A string is sent as text, anything else as JSON" };
  return isJsonType(input.contentType)
    ? {}
    : { type: "string", description: `A body (${input.contentType})` };
}

/**
 * Builds the request at a route from a call's arguments.
 * @param name name of the arguments, for errors
 * @throws RpcError
 */
export function requestAt(
  route: Route,
  input: JobBody | undefined,
  args: unknown,
  name = "arguments",
): MessageInput {
  const { path, query, body } = paramsAs(argumentsShape, args, name);
  const unknown = Object.keys(path).find((key) => !parameterNames(route).includes(key));
  if (unknown !== undefined)
    throw wrong(`${name}.path.${unknown.slice(0, 100)}: ${routeText(route)} has no such parameter.`);
  const hasBody = body !== undefined;
  const method = route.methods.find((one) => takesBody(one) === hasBody);
  if (method === undefined && hasBody) throw wrong(`${name}.body: this job takes none.`);
  return {
    method: method ?? (route.methods[0] as RouteMethod),
    path: route.segments.map((segment) => `/${encodedSegment(segment, path, name)}`).join(""),
    query: encodedQuery(query),
    ...(hasBody ? encodedBody(body, input, name) : { body: new Uint8Array(), contentType: undefined }),
  };
}

function encodedSegment(
  segment: RouteSegment,
  path: Readonly<Record<string, unknown>>,
  name: string,
): string {
  if (segment.kind === "literal") return segment.text;
  const { [segment.name]: given } = path;
  const text = given === undefined ? "" : String(given);
  if (text === "") throw wrong(`${name}.path.${segment.name}: is missing.`);
  const parts = segment.kind === "rest" ? text.split("/") : [text];
  return parts.map(encodeURIComponent).join("/");
}

function encodedQuery(query: z.infer<typeof argumentsShape>["query"]): string {
  const pairs = Object.entries(query).flatMap(([name, given]) =>
    [given].flat().map((one) => [name, String(one)] as [string, string]),
  );
  // Only some programs read a plus as a space. A plus in a value is already `%2B`.
  return new URLSearchParams(pairs).toString().replaceAll("+", "%20");
}

function encodedBody(
  body: unknown,
  input: JobBody | undefined,
  name: string,
): Pick<MessageInput, "body" | "contentType"> {
  const isJson = input === undefined ? typeof body !== "string" : isJsonType(input.contentType);
  if (!isJson && typeof body !== "string") throw wrong(`${name}.body: must be a string.`);
  const contentType = input?.contentType ?? (isJson ? "application/json" : "text/plain; charset=utf-8");
  return { body: Buffer.from(isJson ? String(stringify(body)) : (body as string)), contentType };
}

function wrong(message: string): RpcError {
  return new RpcError(RPC.invalidParams, message);
}
