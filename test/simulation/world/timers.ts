/* Takes the place of `node:timers/promises`. */
import { simulation } from "./simulation.ts";

interface Options {
  readonly signal?: AbortSignal;
}

function sleep<T>(delayMs?: number, value?: T, { signal }: Options = {}): Promise<T> {
  const run = simulation();
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      event.cancel();
      reject(signal?.reason);
    };
    const event = run.at(Math.max(1, delayMs ?? 1), run.current, () => {
      signal?.removeEventListener("abort", stop);
      resolve(value as T);
    });
    signal?.addEventListener("abort", stop);
  });
}

function nextTurn<T>(value?: T): Promise<T> {
  const run = simulation();
  return new Promise((resolve) => {
    run.at(0, run.current, () => resolve(value as T));
  });
}

export { nextTurn as setImmediate, sleep as setTimeout };
