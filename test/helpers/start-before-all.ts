import { afterAll, beforeAll } from "vitest";

/**
 * Starts something before the tests of a file, or of the `describe` that this is called in, and stops it after them.
 * What is called first starts first and stops last, so that each can be built on those before it.
 *
 * @returns a stand-in that can be used wherever the real one can, from within tests and hooks
 */
export function startBeforeAll<Part extends { stop(): Promise<void> }>(start: () => Promise<Part>): Part {
  let started: Part | undefined;
  beforeAll(async () => {
    started = await start();
  });
  afterAll(() => started?.stop());
  return new Proxy({} as Part, {
    get(_, name) {
      if (started === undefined) throw new Error(`${String(name)} is asked for before it was started`);
      return Reflect.get(started, name, started);
    },
  });
}
