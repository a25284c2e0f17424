import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

test("The programs in docs/embedding.md compile, and so do the types of every module", async () => {
  const page = await readFile(`${ROOT}docs/embedding.md`, "utf8");
  const [documented = "", producers = ""] = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(
    ([, code]) => code,
  );
  // Inside the package, so that it resolves `jobgate` by name, as a program that depends on it does.
  const folder = await mkdtemp(`${ROOT}dist/embedding-types-`);
  try {
    const modules = ["x402", "runner"].map((name) => `export type * as ${name} from "jobgate/${name}";\n`);
    await writeFile(`${folder}/program.mts`, documented + modules.join(""));
    await writeFile(`${folder}/producers.mts`, producers);
    expect(documented).toContain("jobgate/config");
    expect(producers).toContain("X402Producer");
    expect(problemsIn([`${folder}/program.mts`, `${folder}/producers.mts`])).toEqual([]);
  } finally {
    await rm(folder, { recursive: true });
  }
});

/** Compiles programs by TypeScript 6, as programs that use the types may be. */
function problemsIn(paths: readonly string[]): string[] {
  const program = ts.createProgram(paths, {
    module: ts.ModuleKind.NodeNext,
    target: ts.ScriptTarget.ES2023,
    strict: true,
    noEmit: true,
    types: ["node"],
    typeRoots: [`${ROOT}node_modules/@types`],
  });
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
}
