import { until } from "./until.ts";

/** Repeats a check until it passes. A busy machine takes its time; a check that passes ends the wait at once. */
export async function eventually<T>(check: () => T | Promise<T>): Promise<T> {
  let failure: unknown;
  const passed = async () => {
    try {
      return { result: await check() };
    } catch (error) {
      failure = error;
      return undefined;
    }
  };
  const { result } = await until(passed).catch(() => {
    throw failure;
  });
  return result;
}
