/*
 * TOML of JSON values. TOML has no null: fields and items that are null are left out. Its strings have no DEL and no half of
 * a character.
 */

export function tomlString(text: string): string {
  return JSON.stringify(text.replace(/\p{Cs}/gu, "\ufffd")).replaceAll("\u007f", "\\u007f");
}

export function tomlKey(name: string): string {
  return /^[A-Za-z0-9_-]+$/.test(name) ? name : tomlString(name);
}

/** Returns a value of one line. */
export function tomlValue(value: unknown): string {
  if (typeof value === "string") return tomlString(value);
  if (typeof value === "number") return tomlNumber(value);
  if (Array.isArray(value)) return `[${value.filter(isThere).map(tomlValue).join(", ")}]`;
  if (typeof value !== "object" || value === null) return String(value);
  const fields = Object.entries(value).filter(([, one]) => isThere(one));
  if (fields.length === 0) return "{}";
  return `{ ${fields.map(([name, one]) => `${tomlKey(name)} = ${tomlValue(one)}`).join(", ")} }`;
}

const isThere = (value: unknown) => value !== null && value !== undefined;

/** Integers of TOML have 64 bits: a larger integer is written as a float. */
function tomlNumber(value: number): string {
  const text = String(value);
  return Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?[0-9]+$/.test(text)
    ? `${text}.0`
    : text;
}
