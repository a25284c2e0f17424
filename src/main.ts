#!/usr/bin/env node
import { runProgram } from "./commands/program.ts";

// Not process.exit(): it would cut off what is still to be written to a pipe.
process.exitCode = await runProgram(process.argv.slice(2));
