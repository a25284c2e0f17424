import { expect, test } from "vitest";
import type { Charge } from "../../../src/store/contract/work-queue.ts";
import { chargeAtEnd, chargedState, chargedUnits, chargeProblem } from "../../../src/store/rules/charges.ts";

const NOW = 1_000;
const RUNNING = { state: "leased", visible_at: NOW + 1, ceiling: "100", min_charge: null } as const;

test.each<[string, Charge | undefined, string]>([
  ["no charge, the ceiling", undefined, "1001"],
  ["units", { units: "7" }, "7"],
  ["more units than the ceiling, the ceiling", { units: "1002" }, "1001"],
  ["a share, rounded down", { basisPoints: 9_999 }, "1000"],
  ["the whole share", { basisPoints: 10_000 }, "1001"],
  ["more than the whole, the ceiling", { basisPoints: 20_000 }, "1001"],
])("Charges for %s", (_, charge, units) => {
  expect(chargedUnits("1001", charge)).toBe(units);
});

test.each<[string | null, Charge, string | undefined]>([
  ["100", { units: "0" }, undefined],
  ["100", { units: "100" }, undefined],
  ["100", { units: "101" }, "the charge is 101; expected at most the ceiling, 100"],
  ["100", { basisPoints: 10_000 }, undefined],
  ["100", { basisPoints: 10_001 }, "the charge is 10001 basis points; expected at most 10000"],
  [null, { units: "0" }, "it is not metered; expected no charge"],
])("With the ceiling %s, the charge %o has this problem: %s", (ceiling, charge, problem) => {
  expect(chargeProblem(ceiling, charge)).toBe(problem);
});

test("A charge of nothing is released, any other is settled", () => {
  expect([chargedState("0"), chargedState("1")]).toEqual(["released", "settling"]);
});

test.each([
  ["what the runner reported", { ...RUNNING, charge_so_far: "40", min_charge: "10" }, "40"],
  ["the least charge, if that is more", { ...RUNNING, charge_so_far: "4", min_charge: "10" }, "10"],
  ["never more than the ceiling", { ...RUNNING, charge_so_far: null, min_charge: "101" }, "100"],
] as const)("A job that runs when its authorization ends is charged %s", (_, call, charged) => {
  expect(chargeAtEnd(call, "used", NOW)).toBe(charged);
});

test("A job that runs and would be charged nothing when its authorization ends, ends with it", () => {
  expect(chargeAtEnd({ ...RUNNING, charge_so_far: null }, "used", NOW)).toBeUndefined();
  expect(chargeAtEnd({ ...RUNNING, charge_so_far: "0", min_charge: "0" }, "used", NOW)).toBeUndefined();
});

test.each([
  ["waits", { ...RUNNING, state: "ready" }],
  ["was lost with its lease", { ...RUNNING, visible_at: NOW }],
  ["is not paid charged after the job", { ...RUNNING, ceiling: null }],
] as const)("A job that %s is not charged when its authorization ends", (_, call) => {
  expect(chargeAtEnd({ ...call, charge_so_far: "40" }, "used", NOW)).toBeUndefined();
});

test("A job that is charged its whole amount after it ran is charged nothing when its authorization ends before", () => {
  expect(chargeAtEnd({ ...RUNNING, charge_so_far: "40" }, "after", NOW)).toBeUndefined();
});
