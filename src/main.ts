#!/usr/bin/env node
import { runProgram } from "./commands/program.ts";

/** Time for pending writes to a pipe, which process.exit() would cut off. */
const FLUSH_MS = 1_000;
/** Interval between two checks for the parent process. */
const PARENT_CHECK_MS = 250;

process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  // The reader of a pipe may go at any time, as `head` does.
  if (error.code === "EPIPE") return;
  console.error(`Standard output cannot be written: ${error.message}`);
  process.exitCode = 1;
});

if (process.env.npm_command === "exec") stopWithNpx();

const exitCode = await runProgram(process.argv.slice(2));
process.exitCode ||= exitCode;
// A peer that never closes its side of a connection would keep the process alive.
setTimeout(() => process.exit(), FLUSH_MS).unref();

/**
 * Passes SIGTERM on to this process, because npx runs a command in a shell, and on SIGTERM only npx and the shell end.
 */
function stopWithNpx(): void {
  const parent = process.ppid;
  const check = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(check);
    process.kill(process.pid, "SIGTERM");
  }, PARENT_CHECK_MS).unref();
}
