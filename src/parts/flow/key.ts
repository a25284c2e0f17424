import { createHash } from "node:crypto";
import { findInJson } from "../../core/json-value.ts";

/** Place of the key in a request. */
export type KeySource =
  | { readonly in: "json"; readonly tokens: readonly string[] }
  /** The name is in lower case. */
  | { readonly in: "header"; readonly name: string };

export const KEY_SOURCE_FORM =
  "json: and a JSON pointer, such as json:/data/customer, or header: and a name, such as header:X-Customer";

const POINTER = /^json:((?:\/(?:[^~/]|~[01])*)+)$/;
const HEADER = /^header:([A-Za-z0-9-]{1,64})$/;

/** Parses `json:/data/customer` or `header:X-Customer`. @returns undefined for any other text */
export function parseKeySource(text: string): KeySource | undefined {
  const pointer = POINTER.exec(text)?.[1];
  if (pointer !== undefined) {
    const tokens = pointer.split("/").slice(1);
    return { in: "json", tokens: tokens.map((one) => one.replaceAll("~1", "/").replaceAll("~0", "~")) };
  }
  const name = HEADER.exec(text)?.[1];
  return name === undefined ? undefined : { in: "header", name: name.toLowerCase() };
}

/** Longest key that is stored unchanged. */
const MAX_KEY_LENGTH = 200;
const KEPT_OF_LONG_KEY = 100;

/** Returns the key of a request; undefined if the request has no text or number there, or more than one. */
export function keyOf(
  source: KeySource,
  request: { headerValues(name: string): readonly string[] },
  body: Uint8Array,
): string | undefined {
  const text = source.in === "json" ? jsonText(source.tokens, body) : headerText(source.name, request);
  if (text === undefined || text === "") return undefined;
  return storedKey(text);
}

/** Returns the form of a key that every store can keep. */
export function storedKey(value: string): string {
  const text = Buffer.from(value).toString().replaceAll("\0", "\uFFFD");
  if (text.length <= MAX_KEY_LENGTH) return text;
  // The cut may split a character. SQLite's driver aborts when it reads half a character.
  const kept = Buffer.from(text.slice(0, KEPT_OF_LONG_KEY)).toString();
  return `${kept}… ${createHash("sha256").update(text).digest("hex")}`;
}

function headerText(name: string, request: { headerValues(name: string): readonly string[] }) {
  const [value, ...more] = request.headerValues(name);
  return more.length === 0 ? value : undefined;
}

function jsonText(tokens: readonly string[], body: Uint8Array): string | undefined {
  const found = findInJson(new TextDecoder().decode(body), tokens);
  if (!("value" in found) || found.value === undefined || found.value.kind === "other") return undefined;
  return found.value.text;
}
