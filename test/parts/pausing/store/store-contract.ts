import { describe, expect, test } from "vitest";
import type { Pause } from "../../../../src/parts/pausing/store/ledger.ts";
import { PAUSES } from "../../../../src/parts/pausing/store/module.ts";
import type { Given } from "../../../store/contract/given.ts";

const JOB = { kind: "job", key: "1/0", jobIds: [0n], refusesAccepts: false, by: "ada", note: "" };
const ENDPOINT = { ...JOB, kind: "endpoint", key: "/hooks/a", jobIds: [2n ** 64n - 1n] };

export function describePauses(given: Given): void {
  const ledger = () => given.store.of(PAUSES);
  const keys = (pauses: readonly Pause[]) => pauses.map(({ kind, key }) => `${kind} ${key}`);

  describe("pauses", () => {
    test("What is paused is listed, the longest paused first, until it is resumed", async () => {
      const paused = await ledger().savePause(ENDPOINT);
      expect(paused).toEqual({ ...ENDPOINT, since: given.now });
      given.now += 1_000;
      await ledger().savePause(JOB);
      expect(await ledger().listPauses()).toEqual([paused, { ...JOB, since: given.now }]);
      expect(await ledger().endPause(ENDPOINT)).toEqual(paused);
      expect(keys(await ledger().listPauses())).toEqual(["job 1/0"]);
      expect(await ledger().endPause(ENDPOINT)).toBeUndefined();
      expect(await ledger().endPause({ kind: "job", key: "9/9" })).toBeUndefined();
    });

    test("To pause once more changes who did it, why and how, and keeps since when it is paused", async () => {
      const since = given.now;
      await ledger().savePause(JOB);
      given.now += 1_000;
      const again = { ...JOB, jobIds: [0n, 1n], refusesAccepts: true, by: "bob", note: "no ink" };
      expect(await ledger().savePause(again)).toEqual({ ...again, since });
      await ledger().endPause(JOB);
      expect(await ledger().savePause(JOB)).toEqual({ ...JOB, since: given.now });
    });
  });
}
