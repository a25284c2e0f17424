import { vi } from "vitest";

/** Repeats a check until it passes. A busy machine takes its time; a check that passes ends the wait at once. */
export function eventually<T>(check: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(check, { timeout: 50_000, interval: 20 });
}
