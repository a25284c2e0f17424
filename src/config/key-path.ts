/** Location of a value in the configuration, spelled as in the file: table names, keys and array indexes. */
export type KeyPath = readonly (string | number)[];

/** Formats a path: `["x402", "accepted_tokens", 0]` becomes `x402.accepted_tokens[0]`. */
export function keyPathText(path: KeyPath): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else text += `${text === "" ? "" : "."}${/^[A-Za-z0-9_-]+$/.test(part) ? part : JSON.stringify(part)}`;
  }
  return text;
}

/**
 * Spelling of a schema key in the file: snake case, and a span in seconds where the schema has milliseconds.
 * `acceptedTokens` becomes `accepted_tokens`, `leaseMs` becomes `lease_secs`.
 */
export function fileKey(name: string): string {
  return name.replace(/Ms$/, "Secs").replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
