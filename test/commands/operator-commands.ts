import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import { runProgram } from "../../src/commands/program.ts";

/** Runs a command within this process. It reads the environment that the test has stubbed. */
export async function runHere(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const printed = { stdout: "", stderr: "" };
  const add = (name: keyof typeof printed, text: unknown): true => {
    printed[name] += String(text);
    return true;
  };
  // commander writes to the process's streams; vitest's console does not.
  const spies = [
    vi.spyOn(process.stdout, "write").mockImplementation((chunk) => add("stdout", chunk)),
    vi.spyOn(process.stderr, "write").mockImplementation((chunk) => add("stderr", chunk)),
    vi.spyOn(console, "log").mockImplementation((line) => void add("stdout", `${line}\n`)),
    vi.spyOn(console, "error").mockImplementation((line) => void add("stderr", `${line}\n`)),
  ];
  try {
    return { code: await runProgram(args), ...printed };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

/**
 * Runs a command within this process, in a working directory (by default a new one) that holds the given files, with these
 * variables added to the environment. Not for concurrent tests: a process has one working directory.
 */
export async function runHereWith(
  args: readonly string[],
  options: { files?: Record<string, string>; env?: Record<string, string>; folder?: string } = {},
): ReturnType<typeof runHere> {
  const { files = {}, env = {}, folder = await mkdtemp(join(tmpdir(), "jobgate-cli-")) } = options;
  const before = process.cwd();
  try {
    for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
    for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
    process.chdir(folder);
    return await runHere(...args);
  } finally {
    process.chdir(before);
    vi.unstubAllEnvs();
    if (options.folder === undefined) await rm(folder, { recursive: true });
  }
}
