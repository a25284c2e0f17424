import { onTestFinished } from "vitest";
import type { Handler } from "../../src/runner/job.ts";
import { type RunOptions, run } from "../../src/runner/run.ts";

/** A runner in this process. */
export interface RunnerUnderTest {
  /** Log lines so far. */
  readonly lines: readonly string[];
  readonly ended: Promise<void>;
  /** Stops it as SIGTERM would, and waits. */
  stop(): Promise<void>;
}

/** Calls `run` for one test. */
export function startRun(handler: Handler, options: RunOptions): RunnerUnderTest {
  const stopping = new AbortController();
  const lines: string[] = [];
  const logger = { info: (line: string) => lines.push(line), warn: (line: string) => lines.push(line) };
  const ended = run(handler, { signal: stopping.signal, subscriber: "test", logger, ...options });
  const stop = (): Promise<void> => {
    stopping.abort();
    return ended;
  };
  onTestFinished(() => stop().catch(() => undefined));
  return { lines, ended, stop };
}
