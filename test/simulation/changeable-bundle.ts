import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { compileFunction } from "node:vm";
import { build, type Plugin, transformSync } from "esbuild";
import { BUNDLE } from "../../bundle.ts";
import { bundleFolder, ROOT } from "../helpers/bundle.ts";
import { type Mutant, mutated, pathOf } from "./mutant.ts";

interface Parts {
  readonly entryPoint: string;
  /** All mutants of the code. */
  readonly mutants: readonly Mutant[];
  readonly plugin: Plugin;
  /** A module whose exports take the place of global names in all modules. */
  readonly globals?: { readonly module: string; readonly names: readonly string[] };
  /** Expressions that are replaced by names in all modules. */
  readonly define?: Readonly<Record<string, string>>;
}

type Run = (...args: unknown[]) => void;

const TYPESCRIPT = /\.ts$/;
/** Matches the names that a CommonJS module exports, which esbuild writes at its end. */
const EXPORTED_NAMES = /0 && \(module\.exports = \{([^}]*)\}\)/;
/** Matches the modules that a CommonJS module loads. */
const REQUIRED = /require\(("[^"]+")\)/g;

/**
 * Bundles the gateway with an entry point. Returns a function that runs the bundle's modules anew and returns the exports of the
 * entry point. If the function gets a mutant, the mutant's module takes the place of the gateway's. V8 compiles the bundle once;
 * for a mutant, it compiles one more module. To load a bundle of its own for each mutant takes ten times as long.
 */
export function changeableBundle<T>(parts: Parts): (mutant?: Mutant) => Promise<T> {
  const { entryPoint, plugin, define = {}, globals } = parts;
  const names = globals?.names ?? [];
  const changeable = new Set(parts.mutants.map(pathOf));
  let compiled: Promise<Run> | undefined;

  async function compileBundle(): Promise<Run> {
    const { outputFiles } = await build({
      ...BUNDLE,
      format: "cjs",
      write: false,
      outdir: ROOT,
      entryPoints: [entryPoint],
      inject: globals === undefined ? [] : [globals.module],
      define: { ...define, "import.meta.url": "META_URL" },
      supported: { "dynamic-import": false },
      plugins: [
        plugin,
        {
          name: "changeable modules",
          setup(plugins) {
            plugins.onLoad({ filter: TYPESCRIPT }, ({ path }) =>
              changeable.has(path) ? { contents: changeableModule(path), loader: "js" } : undefined,
            );
          },
        },
      ],
    });
    return compileFunction(outputFiles[0]?.text ?? "", ["module", "require", "META_URL", "CHANGED"]) as Run;
  }

  /** Returns the text of a module that runs the mutant's code in the place of its own. */
  function changeableModule(path: string): string {
    const code = commonJsOf(readFileSync(path, "utf8"));
    const [, exported] = EXPORTED_NAMES.exec(code) ?? [];
    const needed = [...new Set(Array.from(code.matchAll(REQUIRED), ([, name]) => name))];
    return `${needed.map((name, i) => `import * as needed${i} from ${name};`).join("\n")}
      const needed = { ${needed.map((name, i) => `${name}: { __esModule: true, ...needed${i} }`).join(", ")} };
      const own = function (${["module", "require", ...names].join(", ")}) { ${code} };
      const run = CHANGED?.path === ${JSON.stringify(path)} ? CHANGED.run : own;
      const module = { exports: {} };
      run(${["module", "(name) => needed[name]", ...names].join(", ")});
      export const { ${exported} } = module.exports;`;
  }

  function commonJsOf(text: string): string {
    const { platform, target } = BUNDLE;
    const options = { loader: "ts", format: "cjs", platform, target, define } as const;
    return transformSync(text, { ...options, supported: { "dynamic-import": false } }).code;
  }

  return async (mutant) => {
    const changed = mutant && {
      path: pathOf(mutant),
      run: compileFunction(commonJsOf(mutated(mutant)), ["module", "require", ...names]),
    };
    if (changed !== undefined && !changeable.has(changed.path))
      throw new Error(`no mutant of the bundle changes ${changed.path}`);
    compiled ??= compileBundle();
    const run = await compiled;
    const module = { exports: {} };
    // Modules of the bundle find files of the package relative to this path.
    const url = pathToFileURL(join(bundleFolder("bundle"), "index.js")).href;
    run(module, createRequire(url), url, changed);
    return module.exports as T;
  };
}
