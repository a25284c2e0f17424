import { readdirSync } from "node:fs";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");
/** Name of the case without any part. */
export const ALL = "all";
/** Files whose lines name the parts: deleting a part deletes its line. */
export const LISTS: readonly string[] = [
  "src/parts.ts",
  "src/stored-parts.ts",
  "src/page/part-views.ts",
  "src/page/part-chains.ts",
  "src/commands/program.ts",
  "test/stored-parts.ts",
];
/** Libraries of parts. */
const TOOLS: readonly string[] = ["outbound", "transactions"];

const FOLDERS = readdirSync(join(ROOT, "src/parts"));

/** The cases: each part, and all of them. */
export const CASES: readonly string[] = [ALL, ...FOLDERS.filter((name) => !TOOLS.includes(name))];

/** Returns the parts that are missing in a case. */
export const partsOf = (name: string): readonly string[] => (name === ALL ? FOLDERS : [name]);

/** Removes the lines of parts, which have their paths, from the text of a list. @param parts default: every part */
export const withoutLines = (text: string, parts: readonly string[] = FOLDERS): string =>
  text
    .split("\n")
    .filter((line) => !parts.some((part) => line.includes(`/parts/${part}/`)))
    .join("\n");
