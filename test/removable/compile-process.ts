import { join } from "node:path";
import ts from "typescript";
import { LISTS, partsOf, ROOT, withoutLines } from "./without.ts";

type Program = ts.SemanticDiagnosticsBuilderProgram;

/*
 * Compiles the sources without each of the parts that the arguments name. The compiler deletes a part only in its memory:
 * all programs share the files that they have in common, and the compiler checks again what the deletion affects.
 */

const LIST_PATHS = LISTS.map((path) => join(ROOT, path));
const FORMAT: ts.FormatDiagnosticsHost = {
  getCanonicalFileName: (path) => path,
  getCurrentDirectory: () => ROOT,
  getNewLine: () => "\n",
};
const { options, fileNames } = readConfig();
const sharedFiles = new Map<string, ts.SourceFile | undefined>();

function readConfig(): ts.ParsedCommandLine {
  const path = join(ROOT, "tsconfig.json");
  const { config } = ts.readConfigFile(path, ts.sys.readFile);
  return ts.parseJsonConfigFileContent({ ...config, include: ["src"] }, ts.sys, ROOT, undefined, path);
}

/** @param all the program with all parts, if there is one yet */
function programWithout(parts: readonly string[], all?: Program): Program {
  const folders = parts.map((part) => `${join(ROOT, "src/parts", part)}/`);
  const isLeft = (path: string) => !folders.some((folder) => `${path}/`.startsWith(folder));
  const host = ts.createIncrementalCompilerHost(options, {
    ...ts.sys,
    fileExists: (path) => isLeft(path) && ts.sys.fileExists(path),
    directoryExists: (path) => isLeft(path) && ts.sys.directoryExists(path),
    readFile(path, encoding) {
      const text = ts.sys.readFile(path, encoding);
      return text !== undefined && LIST_PATHS.includes(path) ? withoutLines(text, parts) : text;
    },
  });
  const parse = host.getSourceFile;
  host.getSourceFile = (path, ...others) => {
    if (LIST_PATHS.includes(path)) return parse(path, ...others);
    if (!sharedFiles.has(path)) sharedFiles.set(path, parse(path, ...others));
    return sharedFiles.get(path);
  };
  return ts.createSemanticDiagnosticsBuilderProgram(fileNames.filter(isLeft), options, host, all);
}

/** @returns what the compiler says of the program; empty if it compiles */
function errorsOf(program: Program): string {
  const diagnostics = [
    ...program.getOptionsDiagnostics(),
    ...program.getGlobalDiagnostics(),
    ...program.getSyntacticDiagnostics(),
    ...program.getSemanticDiagnostics(),
  ];
  return ts.formatDiagnostics(diagnostics, FORMAT);
}

const all = programWithout([]);
const errors = errorsOf(all);
if (errors !== "") throw new Error(errors);
for (const name of process.argv.slice(2)) {
  const problem = errorsOf(programWithout(partsOf(name), all));
  console.log(`${problem === "" ? "ok" : "BROKEN"}  compiles without ${name}\n${problem}`.trimEnd());
  if (problem !== "") process.exitCode = 1;
}
