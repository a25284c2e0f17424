import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

test("The program in docs/embedding.md compiles, and so do the types of every module", async () => {
  const [, documented = ""] =
    /```ts\n([\s\S]*?)```/.exec(await readFile(`${ROOT}docs/embedding.md`, "utf8")) ?? [];
  // Inside the package, so that it resolves `jobgate` by name, as a program that depends on it does.
  const folder = await mkdtemp(`${ROOT}dist/embedding-types-`);
  try {
    const modules = ["x402", "runner"].map((name) => `export type * as ${name} from "jobgate/${name}";\n`);
    await writeFile(`${folder}/program.mts`, documented + modules.join(""));
    expect(documented).toContain("jobgate/config");
    expect(problemsIn(`${folder}/program.mts`)).toEqual([]);
  } finally {
    await rm(folder, { recursive: true });
  }
});

function problemsIn(path: string): string[] {
  const program = ts.createProgram([path], {
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
