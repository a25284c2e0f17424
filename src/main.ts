#!/usr/bin/env node
import { runProgram } from "./commands/program.ts";

/** Time for pending writes to a pipe, which process.exit() would cut off. */
const FLUSH_MS = 1_000;

process.exitCode = await runProgram(process.argv.slice(2));
// A peer that never closes its side of a connection would keep the process alive.
setTimeout(() => process.exit(), FLUSH_MS).unref();
