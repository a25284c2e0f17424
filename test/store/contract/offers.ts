import { describe, expect, test } from "vitest";
import { START_MS } from "../store-fixtures.ts";
import type { Given } from "./given.ts";

export function describeOffers(given: Given): void {
  describe("offers", () => {
    const job = { serviceId: 2n ** 64n - 1n, jobIndex: 2 ** 32 - 1 };
    const known = (id: string) => ({ id, job, offer: `{"id":"${id}"}` });
    const made = (id: string, validForMs: number) => ({ ...known(id), validForMs });
    const saved = (id: string, validUntil: number) => ({ ...known(id), validUntil });

    test("Offers of a job are found until they end, latest end first; also after a restart", async () => {
      await given.store.saveOffers([made("a", 1000), made("b", 2000)]);
      await given.store.saveOffers([{ ...made("other", 5000), job: { ...job, jobIndex: 0 } }]);
      await given.reopen();
      expect(await given.store.findOffers(job)).toEqual([
        saved("b", START_MS + 2000),
        saved("a", START_MS + 1000),
      ]);
      given.now += 1000;
      expect(await given.store.findOffers(job)).toEqual([saved("b", START_MS + 2000)]);
      expect(await given.store.findOffers({ serviceId: 1n, jobIndex: 1 })).toEqual([]);
    });

    test("An offer that is saved again keeps its later end", async () => {
      await given.store.saveOffers([made("a", 2000)]);
      await given.store.saveOffers([made("a", 1000)]);
      expect(await given.store.findOffers(job)).toEqual([saved("a", START_MS + 2000)]);
      await given.store.saveOffers([made("a", 3000)]);
      expect(await given.store.findOffers(job)).toEqual([saved("a", START_MS + 3000)]);
    });
  });
}
