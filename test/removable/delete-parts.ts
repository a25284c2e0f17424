import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ALL, LISTS, partsOf, withoutLines } from "./without.ts";

/** Deletes a part in a folder with the sources: its folders, its lines in the lists, and what package.json exports of it. */
export function deleteParts(name: string, folder: string): void {
  for (const list of LISTS) {
    const path = join(folder, list);
    if (!existsSync(path)) continue;
    writeFileSync(path, withoutLines(readFileSync(path, "utf8"), partsOf(name)));
  }
  const path = join(folder, "package.json");
  const manifest = JSON.parse(readFileSync(path, "utf8"));
  for (const [exported, files] of Object.entries(manifest.exports))
    if (partsOf(name).some((part) => JSON.stringify(files).includes(`/parts/${part}/`)))
      delete manifest.exports[exported];
  writeFileSync(path, `${JSON.stringify(manifest, undefined, 2)}\n`);
  const parts = name === ALL ? "parts" : `parts/${name}`;
  for (const root of ["src", "test"]) rmSync(join(folder, root, parts), { recursive: true, force: true });
}

/** Files and folders in which lines can name a part. */
const NAMING = [
  "README.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  "jobgate.example.toml",
  ".dependency-cruiser.cjs",
  "docs",
  "src",
  "test",
  "bench",
  "clients",
  "demo",
  "deploy",
  "examples",
];

/** Finds the lines that still name a deleted part: its paths, its name as code, and its tables of the configuration. */
export function linesNaming(
  name: string,
  folder: string,
): { readonly file: string; readonly lines: readonly number[] }[] {
  const table = name.replaceAll("-", "_");
  const names = new RegExp(`\\bparts/${name}\\b|\`${name}\`|^\\s*#* *\`?\\[+([\\w.]+\\.)?${table}[\\].]`);
  return NAMING.flatMap((path) => filesIn(folder, path)).flatMap((file) => {
    const lines = readFileSync(join(folder, file), "utf8").split("\n");
    const found = lines.flatMap((line, i) => (names.test(line) ? i + 1 : []));
    return found.length === 0 ? [] : [{ file, lines: found }];
  });
}

function filesIn(folder: string, path: string): string[] {
  if (!existsSync(join(folder, path))) return [];
  if (/\.\w+$/.test(path)) return [path];
  return readdirSync(join(folder, path), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(md|tsx?|js|cjs|toml)$/.test(name) && !name.includes("node_modules"))
    .map((name) => join(path, name));
}
