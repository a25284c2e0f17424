import { GatewayError } from "../../core/errors.ts";
import { findInJson, type JsonValue } from "../../core/json-value.ts";
import type { AskedRequest } from "../../x402/prices/request-prices.ts";
import type { Source } from "./rule.ts";

/*
 * Reads the value of a request that its price depends on. jobgate and the seller must read the same value, so a request that
 * programs read in different ways is refused.
 */

/** Fields that the query of a request may have. */
export type KnownFields = ReadonlySet<string>;

/** Most bytes of a JSON body that a price reads, because parsing more would hold up other requests. */
const MAX_JSON_BYTES = 64 * 1024;

const UTF_8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Returns the value at a source, as a text or a JSON value; undefined if the request has no such value.
 * @throws GatewayError `invalid_input`, `unsupported_media_type`
 */
export function valueAt(
  source: Exclude<Source, { in: "body" }>,
  asked: AskedRequest,
  known: KnownFields,
): JsonValue | undefined {
  switch (source.in) {
    case "json":
      return jsonAt(source, asked);
    case "query":
      return textOf(source, queryField(source.name, asked.query, known));
    case "path":
      return textOf(source, asked.params.find(([name]) => name === source.name)?.[1]);
    case "header":
      return textOf(source, headerOf(source.name, asked));
  }
}

/**
 * Refuses an encoded body, because a price cannot depend on the decoded size and text. @throws GatewayError
 * `unsupported_media_type`
 */
export function requirePlainBody(asked: AskedRequest): void {
  if (asked.headerValues("content-encoding").length === 0) return;
  throw unsupported("The price depends on the body: send it without Content-Encoding.");
}

/** @throws GatewayError `unsupported_media_type` */
export function requireOneContentType(asked: AskedRequest): void {
  if (asked.headerValues("content-type").length < 2) return;
  throw unsupported("The price depends on the body: send one Content-Type.");
}

function jsonAt(source: Source & { in: "json" }, asked: AskedRequest): JsonValue | undefined {
  requirePlainBody(asked);
  const types = asked.headerValues("content-type");
  if (types.length !== 1 || !isJson(types[0] ?? ""))
    throw unsupported("The price depends on the JSON body: send it as application/json in UTF-8.");
  if (asked.body.length > MAX_JSON_BYTES) {
    const most = `${MAX_JSON_BYTES} bytes`;
    throw invalid(source, `The body has more than ${most}.`, `is in a body of more than ${most}`);
  }
  let text: string;
  try {
    text = UTF_8.decode(asked.body);
  } catch {
    throw invalid(source, "The body is not UTF-8.", "is not UTF-8");
  }
  const found = findInJson(text, source.tokens);
  if ("value" in found) return found.value;
  throw invalid(source, `${placeOf(source)} ${found.problem}.`, found.problem);
}

/** Matches `application/json` and types that end in `+json`, with no charset but UTF-8. */
function isJson(contentType: string): boolean {
  const [type = "", ...parameters] = contentType.toLowerCase().split(";");
  const charsets = parameters.map((one) => one.trim()).filter((one) => one.startsWith("charset"));
  return (
    /^(application\/json|[a-z0-9!#$&^_.-]+\/[a-z0-9!#$&^_.+-]+\+json)$/.test(type.trim()) &&
    charsets.every((one) => /^charset=("utf-8"|utf-8)$/.test(one)) &&
    charsets.length < 2
  );
}

function queryField(name: string, query: string, known: KnownFields): string | undefined {
  const source: Source = { in: "query", name };
  // Some programs end a field at a semicolon.
  if (query.includes(";")) throw invalid(source, "The query has a semicolon.", "is beside a semicolon");
  const values: string[] = [];
  for (const part of query.split("&")) {
    if (part === "") continue;
    const [, rawName = part, rawValue = ""] = /^([^=]*)=(.*)$/s.exec(part) ?? [];
    const field = decoded(source, rawName);
    if (field === name) values.push(rawValue);
    else if (!known.has(field))
      throw invalid({ in: "query", name: field }, `The query has an unknown field ${field}.`, "is unknown");
  }
  if (values.length > 1)
    throw invalid(source, `${placeOf(source)} is there more than once.`, "is there more than once");
  const [value] = values;
  // A plus is a space to some programs.
  if (value?.includes("+"))
    throw invalid(source, `${placeOf(source)} has a plus: write %20 or %2B.`, "has a plus");
  return value === undefined ? undefined : decoded(source, value);
}

function decoded(source: Source, raw: string): string {
  try {
    return decodeURIComponent(raw);
  } catch {
    throw invalid(source, "The query is not percent-encoded UTF-8.", "is not percent-encoded UTF-8");
  }
}

function headerOf(name: string, asked: AskedRequest): string | undefined {
  const source: Source = { in: "header", name };
  const [value, ...more] = asked.headerValues(name);
  if (more.length > 0)
    throw invalid(source, `${placeOf(source)} is there more than once.`, "is there more than once");
  // A header that `Connection` lists does not reach the job.
  const ofConnection = asked
    .headerValues("connection")
    .join(",")
    .toLowerCase()
    .split(/[\s,]+/);
  if (ofConnection.includes(name))
    throw invalid(source, `${placeOf(source)} is listed in Connection.`, "is listed in Connection");
  if (value !== undefined && !/^[\x20-\x7e]*$/.test(value))
    throw invalid(source, `${placeOf(source)} is not ASCII.`, "is not ASCII");
  return value;
}

/** Refuses a text that programs read in different ways. @throws GatewayError `invalid_input` */
export function textOf(source: Source, text: string | undefined): JsonValue | undefined {
  if (text === undefined) return undefined;
  // Some programs trim a text, or end it at a control character.
  if (/\p{Cc}|\ufffd/u.test(text) || text !== text.trim())
    throw invalid(
      source,
      `${placeOf(source)} has a space at an end or a control character.`,
      "cannot be read",
    );
  return { kind: "string", text };
}

function placeOf(source: Source): string {
  if (source.in === "body") return "The body";
  if (source.in === "json") return `The body's ${source.pointer || "JSON"}`;
  return `The ${source.in}'s ${source.name}`;
}

/** Refusal of a request that has no price. @param problem completes `/n …`, where `/n` is the source */
export function invalid(
  source: Source,
  sentence: string,
  problem: string,
  details: object = {},
): GatewayError {
  const path =
    source.in === "json" ? source.pointer : source.in === "body" ? "" : `/${source.in}/${source.name}`;
  return new GatewayError("invalid_input", `${sentence} The price depends on it. Nothing was charged.`, {
    details: { invalid: [{ path: path.slice(0, 200), message: problem }], ...details },
  });
}

function unsupported(sentence: string): GatewayError {
  return new GatewayError("unsupported_media_type", `${sentence} Nothing was charged.`);
}
