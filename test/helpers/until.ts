import { setTimeout as sleep } from "node:timers/promises";

/** Bounds every wait: longer than anything takes on a busy machine, shorter than a test's own time-out. The full tests set it. */
export const WAIT_MS = Number(process.env.JOBGATE_TEST_WAIT_MS ?? 50_000);
const MAX_PAUSE_MS = 250;

/** The time that passes also while a test holds its own clock. */
const now = performance.now.bind(performance);

/**
 * Repeats a check until its result is neither false nor undefined. A check that has to throw is for `eventually`.
 * @param options `details` end the message of a check that does not pass in time
 * @returns that result
 */
export async function until<Result>(
  check: () => Result | Promise<Result>,
  { waitMs = WAIT_MS, details = () => "" }: { waitMs?: number; details?: () => string } = {},
): Promise<Exclude<Result, false | undefined>> {
  const deadline = now() + waitMs;
  for (let pauseMs = 2; ; pauseMs = Math.min(pauseMs * 1.5, MAX_PAUSE_MS)) {
    const result = await check();
    if (result !== false && result !== undefined) return result as Exclude<Result, false | undefined>;
    if (now() > deadline) throw new Error(`Not so after ${waitMs} ms: ${check}\n${details()}`);
    await sleep(pauseMs);
  }
}
