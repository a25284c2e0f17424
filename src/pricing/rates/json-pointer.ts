import { isLosslessNumber } from "lossless-json";

/**
 * What a JSON pointer (RFC 6901) finds in a document that lossless-json has parsed; undefined when there is nothing.
 * @param pointer a valid one: the configuration has checked it
 */
export function valueAt(document: unknown, pointer: string): unknown {
  const tokens = pointer.split("/").slice(1);
  let value = document;
  for (const escaped of tokens) {
    const token = escaped.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof value !== "object" || value === null || isLosslessNumber(value)) return undefined;
    // An array's own `length` is nothing of the document's.
    if (!Object.hasOwn(value, token) || (Array.isArray(value) && token === "length")) return undefined;
    value = (value as Record<string, unknown>)[token];
  }
  return value;
}
