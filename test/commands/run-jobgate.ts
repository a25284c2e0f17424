import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { spawnTethered } from "../../src/node/tethered-process.ts";
import { jobgateProgram, type ProgramSource } from "../helpers/jobgate-program.ts";
import { WAIT_MS } from "../helpers/until.ts";

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a command as a process and waits for its end, at most `WAIT_MS`. The working directory holds the given files and is removed
 * afterwards; the environment holds only `env` and PATH.
 */
export async function runJobgate(
  args: readonly string[],
  options: {
    readonly files?: Record<string, string | Uint8Array>;
    readonly env?: Record<string, string>;
    readonly from?: ProgramSource;
  } = {},
): Promise<Ended> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-cli-"));
  try {
    for (const [name, content] of Object.entries(options.files ?? {}))
      await writeFile(join(folder, name), content);
    const child = spawnTethered({
      command: process.execPath,
      args: [...jobgateProgram(options.from), ...args],
      env: { PATH: process.env.PATH, ...options.env },
      cwd: folder,
    });
    const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
    const timer = setTimeout(() => child.kill("SIGKILL"), WAIT_MS);
    const [code, stdout, stderr] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
    clearTimeout(timer);
    return { code, stdout, stderr };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
