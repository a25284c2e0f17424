import { afterAll, beforeAll } from "vitest";

/**
 * Starts something before the tests of a file, or of the `describe` that this is called in, and stops it after them.
 * What is called first starts first and stops last, so that each can be built on those before it.
 *
 * @returns a stand-in whose members are those of the real one, from within tests and hooks
 */
export function startBeforeAll<Part extends { stop(): Promise<unknown> }>(start: () => Promise<Part>): Part {
  let started: Part | undefined;
  beforeAll(async () => {
    started = await start();
  });
  afterAll(() => started?.stop());
  const get = (): Part => {
    if (started === undefined) throw new Error("this is used before it was started");
    return started;
  };
  return new Proxy({} as Part, {
    get: (_, name) => Reflect.get(get(), name),
    set: (_, name, value) => Reflect.set(get(), name, value),
  });
}
