import { readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import { MODULES, WORKERS } from "../../../bundle.ts";
import { bundleFolder, ROOT } from "../../helpers/bundle.ts";
import type { ProgramSource } from "../../helpers/jobgate-program.ts";

const SCHEMA = join(ROOT, "src/parts/postgres/schema/migrations.ts");
let programs = 0;

/** Builds jobgate as a later release of these sources: with more migrations of the Postgres store. */
export async function programWithSchema(later: {
  /** SQL from each version to the next, after the newest of the sources. */
  readonly migrations: readonly string[];
  /** Schema version of the oldest release that can use the tables. */
  readonly usableFrom: number;
}): Promise<ProgramSource> {
  const folder = bundleFolder(`later-${process.pid}-${++programs}`);
  const added = later.migrations.map((sql) => JSON.stringify(sql)).join();
  const changes = [
    [/(?<=MIGRATIONS: readonly string\[\] = \[.*)(?=\];)/, `, ${added}`],
    [/(?<=OLDEST_USABLE_BY = )\d+/, String(later.usableFrom)],
  ] as const;
  let contents = await readFile(SCHEMA, "utf8");
  for (const [pattern, by] of changes) {
    if (!pattern.test(contents)) throw new Error(`${SCHEMA} has no ${pattern}`);
    contents = contents.replace(pattern, () => by);
  }
  await build({
    ...MODULES,
    entryPoints: { main: "src/main.ts", ...WORKERS },
    outdir: join(folder, "dist/program"),
    plugins: [
      {
        name: "schema",
        setup: ({ onLoad }) =>
          onLoad({ filter: /postgres\/schema\/migrations\.ts$/ }, () => ({ contents, loader: "ts" })),
      },
    ],
  });
  await symlink(join(ROOT, "dist/page"), join(folder, "dist/page"));
  await writeFile(join(folder, "package.json"), await readFile(join(ROOT, "package.json")));
  await writeFile(join(folder, "dist/main.js"), 'import "./program/main.js";\n');
  return { builtIn: folder };
}
