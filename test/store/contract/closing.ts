import { describe, expect, test } from "vitest";
import { webhookCall } from "../store-fixtures.ts";
import type { Given } from "./given.ts";

export function describeClosing(given: Given): void {
  describe("closing", () => {
    test("Closing waits for work in progress, is safe to call twice, and refuses later work", async () => {
      const accepts = Array.from({ length: 20 }, () => given.store.accept(webhookCall()));
      await Promise.all([given.store.close(), given.store.close()]);
      expect((await Promise.all(accepts)).every(({ kind }) => kind === "accepted")).toBe(true);
      const { store } = given;
      for (const ask of [() => store.accept(webhookCall()), () => store.findCall(1), () => store.totals()])
        await expect(ask()).rejects.toMatchObject({ code: "store_unavailable" });
      await given.reopen();
      expect((await given.store.totals()).calls.ready).toBe(20);
    });
  });
}
