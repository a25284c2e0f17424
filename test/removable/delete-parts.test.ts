import { cpSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { testFolder } from "../helpers/test-folder.ts";
import { deleteParts, linesNaming } from "./delete-parts.ts";
import { LISTS, ROOT } from "./without.ts";

test("A part is removed with its folders, its lines and its exports, and the lines that still name it are found", async () => {
  const folder = await testFolder();
  const kept = ["package.json", "docs/parts.md", "docs/configuration.md", "src/parts/books", ...LISTS];
  const own = ["src/parts/rates", "test/parts/rates"];
  for (const path of [...kept, ...own]) cpSync(join(ROOT, path), join(folder, path), { recursive: true });
  const read = (path: string) => readFileSync(join(folder, path), "utf8");
  const before = JSON.parse(read("package.json"));

  deleteParts("rates", folder);

  expect(own.filter((path) => existsSync(join(folder, path)))).toEqual([]);
  expect(existsSync(join(folder, "src/parts/books"))).toBe(true);
  expect(LISTS.filter((list) => read(list).includes("parts/rates/"))).toEqual([]);
  expect(read("src/parts.ts").split("\n").length).toBe(
    readFileSync(join(ROOT, "src/parts.ts"), "utf8").split("\n").length - 1,
  );
  const { "./rates": _, ...exports } = before.exports;
  expect(JSON.parse(read("package.json"))).toEqual({ ...before, exports });
  expect(linesNaming("rates", folder)).toMatchObject([{ file: "docs/parts.md" }]);
});

test("A table of the configuration names its part", async () => {
  const folder = await testFolder();
  cpSync(join(ROOT, "docs/configuration.md"), join(folder, "docs/configuration.md"));
  const lines = readFileSync(join(ROOT, "docs/configuration.md"), "utf8").split("\n");
  const named = linesNaming("pricing-engine", folder).flatMap((one) =>
    one.lines.map((line) => lines[line - 1]),
  );
  expect(named).toContain("## `[pricing_engine]`");
});
