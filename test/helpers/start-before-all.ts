import { afterAll, beforeAll } from "vitest";

/**
 * Starts something before the tests of a file, or of the `describe` that this is called in, and stops it after them.
 * Parts start in the order of the calls and stop in reverse, so that each can use those before it.
 *
 * @returns a proxy for the started part, usable within tests and hooks
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
