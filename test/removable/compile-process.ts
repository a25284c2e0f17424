import { join } from "node:path";
import ts from "typescript";
import { ALL, LISTS, partsOf, ROOT, withoutLines } from "./without.ts";

/* Compiles the sources without any part. The compiler deletes the parts only in its memory. */

const LIST_PATHS = LISTS.map((path) => join(ROOT, path));
const PARTS = `${join(ROOT, "src/parts")}/`;
const CONFIG = join(ROOT, "tsconfig.json");

const isLeft = (path: string) => !`${path}/`.startsWith(PARTS);
const { config } = ts.readConfigFile(CONFIG, ts.sys.readFile);
const { options, fileNames } = ts.parseJsonConfigFileContent(
  { ...config, include: ["src"] },
  ts.sys,
  ROOT,
  undefined,
  CONFIG,
);
const host = ts.createIncrementalCompilerHost(options, {
  ...ts.sys,
  fileExists: (path) => isLeft(path) && ts.sys.fileExists(path),
  directoryExists: (path) => isLeft(path) && ts.sys.directoryExists(path),
  readFile(path, encoding) {
    const text = ts.sys.readFile(path, encoding);
    return text !== undefined && LIST_PATHS.includes(path) ? withoutLines(text, partsOf(ALL)) : text;
  },
});
const errors = ts.getPreEmitDiagnostics(ts.createProgram(fileNames.filter(isLeft), options, host));
const isFine = errors.length === 0;
console.log(
  `${isFine ? "ok" : "BROKEN"}  compiles without ${ALL}\n${ts.formatDiagnostics(errors, host)}`.trimEnd(),
);
if (!isFine) process.exitCode = 1;
