/**
 * Text from outside for a terminal: what could move its cursor, hide or reorder text is shown as an escape.
 */
function printable(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
}

/** Rows under their headings, in columns as wide as they need. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows].map((row) => row.map(printable));
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Names and values, one pair on a line; empty values are left out. */
export function fields(pairs: readonly (readonly [name: string, value: string])[]): string {
  const known = pairs.filter(([, value]) => value !== "");
  const width = Math.max(...known.map(([name]) => name.length));
  return known.map(([name, value]) => `${name.padEnd(width)}  ${printable(value)}`).join("\n");
}
