import { describe, expect, test } from "vitest";
import type { Given } from "./given.ts";

export function describeSecrets(given: Given): void {
  describe("secrets", () => {
    test("The first secret of a name stays, for racing writers and after a restart", async () => {
      const candidates = Array.from({ length: 20 }, (_, n) => `candidate ${n}`);
      const kept = await Promise.all(candidates.map((secret) => given.store.keepSecret("a", secret)));
      expect(new Set(kept).size).toBe(1);
      expect(candidates).toContain(kept[0]);
      expect(await given.store.keepSecret("b", "another")).toBe("another");
      await given.reopen();
      expect(await given.store.keepSecret("a", "later")).toBe(kept[0]);
    });
  });
}
