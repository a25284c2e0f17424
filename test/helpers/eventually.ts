import { vi } from "vitest";
import { WAIT_MS } from "./until.ts";

/** Repeats a check until it passes. A busy machine takes its time; a check that passes ends the wait at once. */
export function eventually<T>(check: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(check, { timeout: WAIT_MS, interval: 20 });
}
