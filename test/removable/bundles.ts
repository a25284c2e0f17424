import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BuildContext, context } from "esbuild";
import { MODULES, WORKERS } from "../../bundle.ts";
import { LISTS, ROOT, withoutLines } from "./without.ts";

const PARTS = "src/parts/";
const CORE_WORKERS = Object.fromEntries(
  Object.entries(WORKERS).filter(([, path]) => !path.startsWith(PARTS)),
);
const LIST_PATHS = LISTS.map((path) => join(ROOT, path));

/** Bundles of the program without some parts, with the pages of the build. The bundler reads each file once for all bundles. */
export class Bundles {
  /** Has the shape of the package, with the newest bundle. */
  readonly folder = mkdtempSync(join(tmpdir(), "jobgate-without-"));
  #parts: readonly string[] = [];
  #context: Promise<BuildContext> | undefined;

  /** Replaces the bundle. @throws Error when a file that is left imports one of the parts */
  async makeWithout(parts: readonly string[]): Promise<void> {
    this.#parts = parts;
    this.#context ??= this.#begin();
    rmSync(join(this.folder, "dist"), { recursive: true, force: true });
    await (await this.#context).rebuild();
    writeFileSync(join(this.folder, "dist/main.js"), 'import "./program/main.js";\n');
    symlinkSync(join(ROOT, "dist/page"), join(this.folder, "dist/page"));
  }

  async close(): Promise<void> {
    await (await this.#context)?.dispose();
    rmSync(this.folder, { recursive: true });
  }

  #begin(): Promise<BuildContext> {
    for (const name of ["package.json", "node_modules"])
      symlinkSync(join(ROOT, name), join(this.folder, name));
    return context({
      ...MODULES,
      logLevel: "silent",
      entryPoints: { main: "src/main.ts", ...CORE_WORKERS },
      outdir: join(this.folder, "dist/program"),
      plugins: [
        {
          name: "without parts",
          setup: ({ onLoad }) => {
            onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => this.#load(path));
          },
        },
      ],
    });
  }

  #load(path: string) {
    const deleted = this.#parts.find((part) => path.startsWith(join(ROOT, PARTS, part, "/")));
    if (deleted !== undefined) return { errors: [{ text: `${path} is of ${deleted}, which is deleted` }] };
    if (!LIST_PATHS.includes(path)) return undefined;
    return { contents: withoutLines(readFileSync(path, "utf8"), this.#parts), loader: "ts" as const };
  }
}
