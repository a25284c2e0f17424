#!/usr/bin/env node
import { runProgram } from "./commands/program.ts";

/** For what is still to be written to a pipe, which process.exit() cuts off. */
const LAST_WORDS_MS = 1_000;

process.exitCode = await runProgram(process.argv.slice(2));
// A peer that never closes its side of a connection would keep the process for as long as it likes.
setTimeout(() => process.exit(), LAST_WORDS_MS).unref();
