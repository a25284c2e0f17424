import { createReadStream } from "node:fs";
import { splitCredentials } from "../../../chain/basic-auth.ts";
import { Refusal } from "../../../commands/input.ts";
import { fileErrorText } from "../../../config/named-files.ts";
import { isObject } from "../../../core/objects.ts";
import { printable } from "../../../core/printable.ts";

/** Time limit of downloading a description. */
const TIMEOUT_MS = 30_000;
/** Most bytes of a description. The largest public APIs have descriptions of 13 MB. */
const MAX_BYTES = 64 * 1024 * 1024;
/** Longest chain of references. A longer chain is taken for a circle. */
const MAX_REFERENCES = 20;

/** A part of a description that cannot be used. The message completes "the operation …". */
export class DescriptionProblem extends Error {
  override readonly name = "DescriptionProblem";
}

/** An API's description of itself, OpenAPI 3. */
export interface OpenApiDocument {
  readonly content: Readonly<Record<string, unknown>>;
  /** URL of the description; undefined for a file. */
  readonly url?: string;
}

/**
 * Reads a description, JSON or YAML.
 * @param source http:// or https:// URL, or path of a file
 * @throws Refusal with the reason
 */
export async function readDocument(source: string): Promise<OpenApiDocument> {
  if (!/^https?:\/\//i.test(source)) return documentOf(source, await readBytes(source));
  if (!URL.canParse(source)) throw new Refusal([`--openapi has a malformed URL; ${EXPECTED}`]);
  // The shown and stored URL has no credentials.
  const { url: address, headers } = splitCredentials(source);
  const shown = withoutQuery(address);
  const { bytes, url } = await request(address, shown, headers);
  return { ...(await documentOf(shown, bytes)), url: withoutQuery(url).replace("?…", "") };
}

/** Leaves out the query of a URL, which may hold a secret. */
function withoutQuery(address: string): string {
  const { origin, pathname, search } = new URL(address);
  return `${origin}${pathname}${search === "" ? "" : "?…"}`;
}

async function documentOf(source: string, bytes: Uint8Array): Promise<OpenApiDocument> {
  const content = await parse(bytes, source);
  if (!isObject(content)) throw new Refusal([`${source} is not an object; ${EXPECTED}`]);
  if (typeof content.swagger === "string")
    throw new Refusal([
      `${source} is Swagger ${content.swagger}; ${EXPECTED}, to which tools such as swagger2openapi convert it`,
    ]);
  if (typeof content.openapi !== "string" || !/^3\.[0-9]/.test(content.openapi))
    throw new Refusal([
      `${source} has ${JSON.stringify(content.openapi) ?? "no value"} as openapi; ${EXPECTED}`,
    ]);
  return { content };
}

const EXPECTED = "expected an OpenAPI description of version 3.0 or later, in JSON or YAML";

/** @param source address as messages show it */
async function request(
  address: string,
  source: string,
  credentials: Readonly<Record<string, string>>,
): Promise<{ bytes: Uint8Array; url: string }> {
  try {
    const headers = { accept: "application/json, application/yaml;q=0.9, */*;q=0.8", ...credentials };
    const answer = await fetch(address, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!answer.ok) throw new Refusal([`${source} answered ${answer.status}; ${EXPECTED}`]);
    return { bytes: await collected(source, answer.body ?? []), url: answer.url };
  } catch (error) {
    if (error instanceof Refusal) throw error;
    const { message, cause } = error as Error;
    const reason = cause instanceof Error ? cause.message : message;
    throw new Refusal([`${source} cannot be read: ${reason}; ${EXPECTED}`]);
  }
}

/** @throws Refusal for a description that is too large */
async function collected(source: string, bytes: AsyncIterable<Uint8Array> | []): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of bytes) {
    size += chunk.length;
    if (size > MAX_BYTES) throw new Refusal([`${source} is larger than ${MAX_BYTES} bytes; ${EXPECTED}`]);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function readBytes(path: string): Promise<Uint8Array> {
  try {
    return await collected(path, createReadStream(path));
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw new Refusal([`${path} cannot be read: ${fileErrorText(error)}; ${EXPECTED}`]);
  }
}

async function parse(bytes: Uint8Array, source: string): Promise<unknown> {
  // The decoder drops the byte order mark that some programs write.
  const text = new TextDecoder().decode(bytes);
  try {
    if (/^\s*\{/.test(text)) return JSON.parse(text);
    // The CommonJS module has no named exports once it is bundled.
    const yaml = (await import("yaml")).default;
    return yaml.parse(text, { logLevel: "error" });
  } catch (error) {
    const [reason = ""] = (error as Error).message.split("\n");
    throw new Refusal([`${source} is neither JSON nor YAML: ${printable(reason)}; ${EXPECTED}`]);
  }
}

/** Returns what a JSON pointer into a description, such as `#/components/schemas/City`, leads to. */
export function valueAt({ content }: OpenApiDocument, reference: string): unknown {
  if (reference !== "#" && !reference.startsWith("#/"))
    throw new DescriptionProblem(`refers to ${reference}, which is outside of the description`);
  let value: unknown = content;
  for (const part of reference.split("/").slice(1)) {
    const key = decode(part).replaceAll("~1", "/").replaceAll("~0", "~");
    const isThere = typeof value === "object" && value !== null && Object.hasOwn(value, key);
    if (!isThere) throw new DescriptionProblem(`refers to ${reference}, which the description does not have`);
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Follows the references of an object of a description. @returns undefined if the value is not an object */
export function resolved(
  document: OpenApiDocument,
  value: unknown,
): Readonly<Record<string, unknown>> | undefined {
  let at = value;
  for (let i = 0; i < MAX_REFERENCES; i++) {
    if (!isObject(at)) return undefined;
    if (typeof at.$ref !== "string") return at;
    at = valueAt(document, at.$ref);
  }
  throw new DescriptionProblem("has references that lead in a circle");
}
