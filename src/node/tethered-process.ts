import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";

/** A child process that ends when its stdin closes; its output is readable. */
export type TetheredProcess = ChildProcessByStdio<Writable, Readable, Readable>;

/**
 * The shell starts a watcher that waits for end-of-file on the pipe from this process. The shell then becomes the
 * command itself. The pipe closes however this process ends, even by SIGKILL, when no exit handler runs.
 */
const TETHER = 'exec 3<&0; (cat <&3; kill -KILL $$) >/dev/null 2>&1 & exec "$@" 3<&- </dev/null';

/**
 * Starts a command that cannot outlive this process. `pid`, signals and the `exit` event are the command's own.
 */
export function spawnTethered(options: {
  readonly command: string;
  readonly args: readonly string[];
  /** The whole environment of the command. */
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** User that the command runs as; default: the user of this process. */
  readonly uid?: number;
  readonly gid?: number;
  /** True if Ctrl-C on the terminal must not reach the command. */
  readonly detached?: boolean;
}): TetheredProcess {
  const child = spawn("/bin/sh", ["-c", TETHER, "sh", options.command, ...options.args], {
    stdio: ["pipe", "pipe", "pipe"],
    env: options.env ?? process.env,
    detached: options.detached ?? false,
    cwd: options.cwd,
    uid: options.uid,
    gid: options.gid,
  });
  // Nothing is written to the pipe, so an error when it closes means nothing.
  child.stdin.on("error", () => undefined);
  return child;
}

/** Resolves once the process has ended, or at once if it has already ended. */
export function processEnded(child: TetheredProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => child.once("exit", () => resolve()));
}
