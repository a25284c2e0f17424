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
