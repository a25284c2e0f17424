import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire, Module } from "node:module";
import { join } from "node:path";
import { Script } from "node:vm";

// Bundled as CommonJS beside the program: Node 20 keeps no compiled code of modules, but takes it for a script.
const PROGRAM = join(__dirname, "jobgate.cjs");
const COMPILED = join(__dirname, "jobgate.compiled");

const script = new Script(Module.wrap(readFileSync(PROGRAM, "latin1")), {
  filename: "jobgate.cjs",
  cachedData: existsSync(COMPILED) ? readFileSync(COMPILED) : undefined,
});
const module = { exports: {} as typeof import("../../src/commands/program.ts") };
script.runInThisContext()(module.exports, createRequire(PROGRAM), module, PROGRAM, __dirname);

export const { runProgram } = module.exports;

/** Starts all parts of jobgate once, and writes down what V8 compiled for that. */
export async function warmUp(): Promise<void> {
  // Its first line says that it listens.
  console.log = () => {
    console.log = () => undefined;
    process.kill(process.pid, "SIGTERM");
  };
  process.exitCode = await runProgram(["serve", "--log-level", "error"]);
  writeFileSync(COMPILED, script.createCachedData());
}
