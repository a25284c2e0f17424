import { execFileSync, spawnSync } from "node:child_process";
import { deleteParts, linesNaming } from "./removable/delete-parts.ts";
import { importsByOtherParts, importsOfPart } from "./removable/imports-of-parts.ts";
import { ALL, CASES, ROOT } from "./removable/without.ts";

/*
 * Deletes a part from this checkout: its folders in src/ and test/, its lines in the lists of parts, its exports, and its
 * commands in the docs. `npm run check:removable` deletes each part in a copy with the same code. Prints what a person has to
 * decide: tests of several parts that import the part, and lines that name it. Run by `npm run remove-part -- NAME`.
 */

const [name = "", ...more] = process.argv.slice(2);
const parts = CASES.filter((one) => one !== ALL);
if (more.length > 0 || !parts.includes(name)) {
  console.error(`Expected the name of a part: ${parts.join(", ")}`);
  process.exit(2);
}
const folders = [`src/parts/${name}`, `test/parts/${name}`];
const changed = execFileSync("git", ["status", "--porcelain", "--", ...folders], {
  cwd: ROOT,
  encoding: "utf8",
});
if (changed !== "") {
  console.error(
    `${name} has changes that git could not restore. Commit or discard them first:\n${changed.trimEnd()}`,
  );
  process.exit(1);
}
const inSources = importsOfPart(name, ["src"]);
if (inSources.length > 0) {
  console.error(`${name} cannot be removed:\n${inSources.join("\n")}`);
  process.exit(1);
}
const tests = new Set([
  ...importsOfPart(name, ["test/e2e", "test/load-config", "test/simulation", "test/interop", "test/helpers"]),
  ...importsByOtherParts(name),
]);
deleteParts(name, ROOT);
spawnSync("npm", ["run", "--silent", "generate:docs"], { cwd: ROOT, stdio: "inherit" });
print("Removed its folders, its lines in lists, its exports and its commands in docs/operator-api.md.", []);
print("These tests import it. Delete what they test of it:", [...tests]);
print(
  "These lines still name it. Delete its rows and sections:",
  linesNaming(name, ROOT).map(({ file, lines }) => `${file}: ${lines.join(", ")}`),
);
print(
  "Then run `npm run check` and `npm test`. `git diff` shows what was removed, and `git checkout .` restores it.",
  [],
);

function print(title: string, lines: readonly string[]): void {
  if (lines.length > 0 || !title.endsWith(":")) console.log([title, ...lines].join("\n  "));
}
