import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import ts from "typescript";
import { ALL, LISTS, ROOT, withoutLines } from "./without.ts";

/** Parts whose tests need another part. */
const NEEDED: readonly string[] = [
  "operator needs callbacks",
  // The chain of their tests gets the contracts that dev ships.
  "channels needs dev",
  "pay needs dev",
  "permit2 needs dev",
  // The runner library, which these tests run, receives with Work.
  "postgres needs work-stream",
  "run-each needs work-stream",
];

/** Paths of the files that a file imports, by path from the root. */
const imports = new Map<string, readonly string[]>();

/**
 * Finds what the tests in folders import of a part, also through other files.
 * @returns one line for each import
 */
export function importsOfPart(part: string, folders: readonly string[]): string[] {
  const own = new RegExp(`^(src|test)/parts/${part === ALL ? "[^/]+" : part}/`);
  const seen = new Set(folders.flatMap(testFiles).filter((file) => !own.test(file)));
  const found: string[] = [];
  for (const file of seen)
    for (const imported of importsOf(file)) {
      if (own.test(imported)) found.push(`${file} imports ${imported}`);
      else seen.add(imported);
    }
  return found;
}

/**
 * Finds the tests of other parts that import files of a part, without which they do not run.
 * @returns one line for each import
 */
export function importsByOtherParts(part: string): string[] {
  if (part === ALL) return [];
  const others = readdirSync(join(ROOT, "test/parts")).filter(
    (other) => other !== part && !NEEDED.includes(`${other} needs ${part}`),
  );
  return importsOfPart(
    part,
    others.map((other) => `test/parts/${other}`),
  );
}

function testFiles(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => join(folder, name));
}

function importsOf(file: string): readonly string[] {
  const known = imports.get(file);
  if (known !== undefined) return known;
  // A test may still import a file of a part that was removed before.
  const text = existsSync(join(ROOT, file)) ? readFileSync(join(ROOT, file), "utf8") : "";
  const { importedFiles } = ts.preProcessFile(LISTS.includes(file) ? withoutLines(text) : text);
  const found = importedFiles
    .map(({ fileName }) => fileName)
    .filter((name) => /^\.{1,2}\/.*\.tsx?$/.test(name))
    .map((name) => join(dirname(file), name));
  imports.set(file, found);
  return found;
}
