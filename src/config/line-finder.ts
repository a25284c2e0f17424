import { type AST, parseTOML } from "toml-eslint-parser";

/** Location of a value in the configuration, spelled as in the file: table names, keys and array indexes. */
export type KeyPath = readonly (string | number)[];

/** Returns the 1-based line of the value at a path; for a missing value, the line of its table. */
export type LineFinder = (path: KeyPath) => number | undefined;

/**
 * Makes a line finder for one file. The parser that reads the values keeps no positions. This slower parser keeps positions,
 * and runs only if there is a mistake to report.
 */
export function makeLineFinder(toml: string): LineFinder {
  const lines = new Map<string, number>();
  try {
    collectLines(parseTOML(toml), lines);
  } catch {
    // The two parsers may disagree about a corner case. A mistake without a line is still useful.
  }
  return (path) => {
    for (let length = path.length; length > 0; length--) {
      const line = lines.get(lineKey(path.slice(0, length)));
      if (line !== undefined) return line;
    }
    return undefined;
  };
}

function lineKey(path: KeyPath): string {
  return JSON.stringify(path);
}

function collectLines(program: AST.TOMLProgram, lines: Map<string, number>): void {
  const note = (path: KeyPath, line: number): void => {
    // The first line is kept, because `[a.b]` also makes `a`, and `a` may have a header of its own further down.
    if (!lines.has(lineKey(path))) lines.set(lineKey(path), line);
  };
  const visitKeyValue = (node: AST.TOMLKeyValue, table: KeyPath): void => {
    let path = table;
    for (const key of node.key.keys) {
      path = [...path, key.type === "TOMLBare" ? key.name : key.value];
      note(path, node.loc.start.line);
    }
    visitContent(node.value, path);
  };
  const visitContent = (node: AST.TOMLContentNode, path: KeyPath): void => {
    note(path, node.loc.start.line);
    if (node.type === "TOMLInlineTable") for (const child of node.body) visitKeyValue(child, path);
    if (node.type === "TOMLArray")
      for (const [i, child] of node.elements.entries()) visitContent(child, [...path, i]);
  };
  for (const node of program.body[0].body) {
    if (node.type === "TOMLKeyValue") {
      visitKeyValue(node, []);
      continue;
    }
    for (let length = 1; length <= node.resolvedKey.length; length++) {
      note(node.resolvedKey.slice(0, length), node.loc.start.line);
    }
    for (const child of node.body) visitKeyValue(child, node.resolvedKey);
  }
}
