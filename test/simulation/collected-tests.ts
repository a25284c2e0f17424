import type { ExpectStatic } from "vitest";

type Work = (...args: never[]) => unknown;
type Each = (cases: readonly unknown[]) => (name: string, work: Work) => void;
type Registers = ((name: string, work: Work) => void) & { each: Each };

interface Scope {
  readonly name: string;
  readonly before: Work[];
  readonly after: Work[];
}

/* Takes the place of vitest in a bundle of tests, and keeps the tests for the caller to run. */

/** The one of vitest, which a CommonJS module cannot load. */
export let expect: ExpectStatic;

export function useExpect(given: ExpectStatic): void {
  expect = given;
}

/** Tests by the names of their groups and their own. */
export const collected = new Map<string, () => Promise<void>>();
let scopes: readonly Scope[] = [{ name: "", before: [], after: [] }];
let finished: Work[] = [];

const keep = (name: string, work: Work): void => {
  const around = scopes;
  const fullName = [...around.slice(1).map((scope) => scope.name), name].join(" > ");
  if (collected.has(fullName)) throw new Error(`two tests are named "${fullName}"`);
  collected.set(fullName, async () => {
    finished = [];
    try {
      for (const { before } of around) for (const hook of before) await hook();
      await work();
    } finally {
      for (const { after } of around.toReversed()) for (const hook of after) await hook();
      for (const hook of finished.toReversed()) await hook();
    }
  });
};
export const test = withEach(keep);
export const it = withEach(keep);

export const describe = withEach((name, work) => {
  const around = scopes;
  scopes = [...around, { name, before: [], after: [] }];
  work();
  scopes = around;
});

export const beforeEach = (hook: Work): unknown => scopes.at(-1)?.before.push(hook);
export const afterEach = (hook: Work): unknown => scopes.at(-1)?.after.push(hook);
export const onTestFinished = (hook: Work): unknown => finished.push(hook);

function withEach(register: (name: string, work: Work) => void): Registers {
  const each: Each = (cases) => (name, work) => {
    for (const one of cases) {
      const values = (Array.isArray(one) ? one : [one]) as never[];
      register(named(name, values), () => work(...values));
    }
  };
  return Object.assign(register, { each });
}

/** Writes the values of a case into the name of its test, as vitest does. */
function named(name: string, values: readonly unknown[]): string {
  let at = 0;
  const first = values[0] as Record<string, unknown>;
  return name
    .replaceAll(/%[sdj]/g, () => String(values[at++]))
    .replaceAll(/\$(\w+)/g, (_, key: string) => String(first[key]));
}
