import { once } from "node:events";

/** Ends a command whose output can no longer be written. The listener in main.ts reports why, and sets the exit code. */
export class OutputClosed extends Error {
  override readonly name = "OutputClosed";
}

/**
 * Writes text to stdout and waits for a slow reader, so that output does not pile up in memory.
 * @throws OutputClosed once stdout cannot be written
 */
export async function writeOutput(text: string, signal?: AbortSignal): Promise<void> {
  if (process.stdout.errored) throw new OutputClosed();
  if (process.stdout.write(text)) return;
  try {
    await once(process.stdout, "drain", { signal });
  } catch (cause) {
    throw new OutputClosed("stdout cannot be written", { cause });
  }
}
