import { expect, test } from "vitest";
import { CheckBudget } from "../../../src/x402/purchase/check-budget.ts";

const SECS = 100;
/** Time of one check. */
const CHECK_MS = 50;

/** Lets each client send one slow body after another for {@link SECS}. Returns the time of the checks by client. */
function attack(budget: CheckBudget, clients: readonly string[]): number[] {
  const spent = clients.map(() => 0);
  for (let now = 0; now < SECS * 1_000; now++) {
    for (const [i, client] of clients.entries()) {
      if (budget.waitMs(client, now, true) !== undefined) continue;
      budget.spend(client, CHECK_MS, now, true);
      spent[i] = (spent[i] ?? 0) + CHECK_MS;
    }
  }
  return spent;
}

test("One client gets a tenth of the time, beyond a burst and one check", () => {
  const [spent = 0] = attack(new CheckBudget(), ["a"]);
  expect(spent).toBeGreaterThanOrEqual(SECS * 100);
  expect(spent).toBeLessThanOrEqual(SECS * 100 + 50 + CHECK_MS);
});

test("All clients together get a fifth of the time, and none more than a tenth", () => {
  const spent = attack(new CheckBudget(), ["a", "b", "c", "d", "e", "f", "g", "h"]);
  const all = spent.reduce((sum, ms) => sum + ms);
  expect(all).toBeGreaterThanOrEqual(SECS * 200);
  expect(all).toBeLessThanOrEqual(SECS * 200 + 100 + CHECK_MS);
  expect(Math.max(...spent)).toBeLessThanOrEqual(SECS * 100 + 50 + CHECK_MS);
});

test("A client waits until its time is earned back, and no longer", () => {
  const budget = new CheckBudget();
  budget.spend("a", 150, 0);
  expect(budget.waitMs("a", 0)).toBe(1_000);
  expect(budget.waitMs("a", 999)).toBeCloseTo(1);
  expect(budget.waitMs("a", 1_000)).toBeUndefined();
});

test("Where all have used their time, only the bodies of clients without a slow body are checked", () => {
  const budget = new CheckBudget();
  for (const client of ["a", "b", "c"]) budget.spend(client, 50, 0, true);
  budget.spend("fast", 2, 0);
  expect(budget.waitMs("a", 0)).toBe(260);
  for (const client of ["fast", "new"]) {
    expect(budget.waitMs(client, 0)).toBeUndefined();
    expect(budget.waitMs(client, 0, true)).toBe(260);
  }
  expect(budget.waitMs("a", 260)).toBeUndefined();
  for (const client of ["d", "e"]) budget.spend(client, 50, 10_000, true);
  budget.spend("f", 1, 10_000, true);
  expect(budget.waitMs("a", 10_000)).toBeUndefined();
  expect(budget.waitMs("f", 10_000)).toBeDefined();
});

test("Time that was counted too much is given back", () => {
  const budget = new CheckBudget();
  budget.spend("a", 150, 0);
  budget.spend("a", -100, 0);
  expect(budget.waitMs("a", 0, true)).toBeUndefined();
});
