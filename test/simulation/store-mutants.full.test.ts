import { describe, expect, it } from "vitest";
import { loadStoreTests } from "./bundle-store-tests.ts";
import { STORE_MUTANTS } from "./store-mutants.ts";

/** Loads the tests of the store with its code, or with that of a mutant. @returns a function that runs one by its name */
async function load(...mutant: Parameters<typeof loadStoreTests>) {
  const { collected, useExpect } = await loadStoreTests(...mutant);
  useExpect(expect);
  return (name: string) => (collected.get(name) ?? expect.fail(`there is no test "${name}"`))();
}

it("With all guards of the store, each test that misses one of them passes", async () => {
  const run = await load();
  for (const name of new Set(STORE_MUTANTS.map(({ test }) => test))) await run(name);
});

describe("Without one of its guards the store fails a test:", () => {
  it.each(STORE_MUTANTS)("$name", async (mutant) => {
    const run = await load(mutant);
    await expect(run(mutant.test)).rejects.toThrow();
  });
});
