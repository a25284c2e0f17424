import { describe, expect, test } from "vitest";
import { NETWORK } from "../store-fixtures.ts";
import type { Given } from "./given.ts";

const HELD_MS = 10_000;

export function describeLocks(given: Given): void {
  const hold = (owner: string, forMs = HELD_MS) => given.store.holdLock(NETWORK, owner, forMs);

  describe("locks", () => {
    test("One owner at a time holds a network, and another takes it once the lease has ended", async () => {
      expect(await Promise.all(["owner", "other"].map((owner) => hold(owner)))).toContain(false);
      const first = (await hold("owner")) ? "owner" : "other";
      const second = first === "owner" ? "other" : "owner";
      expect(await given.store.holdLock("eip155:1", second, HELD_MS)).toBe(true);
      given.now += HELD_MS - 1;
      expect(await hold(second)).toBe(false);
      expect(await hold(first)).toBe(true);
      given.now += HELD_MS;
      expect(await hold(second)).toBe(true);
      expect(await hold(first)).toBe(false);
    });

    test("An owner can give a network up, and renew a lease that ended if no other owner took it", async () => {
      await hold("owner");
      given.now += HELD_MS * 2;
      expect(await hold("owner")).toBe(true);
      expect(await hold("owner", 0)).toBe(true);
      expect(await hold("other")).toBe(true);
    });
  });
}
