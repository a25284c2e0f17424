import { describe, expect, test } from "vitest";
import { acceptId, claimCalls, claimOne, webhookCall } from "../store-fixtures.ts";
import { type Given, MAX_PENDING } from "./given.ts";

export function describeRepeatedDeliveries(given: Given): void {
  describe("repeated deliveries", () => {
    const WINDOW_MS = 86_400_000;
    const delivery = (ids: readonly string[], bodyHash = "hash", remembered: readonly string[] = []) => ({
      keys: [
        ...ids.map((key) => ({ key, identifies: true })),
        ...remembered.map((key) => ({ key, identifies: false })),
      ],
      bodyHash,
      windowMs: WINDOW_MS,
    });
    async function acceptOnceId(repeatable: ReturnType<typeof delivery>): Promise<number> {
      const outcome = await given.store.acceptOnce(webhookCall(), repeatable);
      if (outcome.kind !== "accepted") throw new Error(`expected accepted, got ${outcome.kind}`);
      return outcome.callId;
    }

    test("A repeat gets the call of the first delivery, also after a restart and once that call is done", async () => {
      const callId = await acceptOnceId(delivery(["a"]));
      const again = () => given.store.acceptOnce(webhookCall(), delivery(["a"]));
      expect(await again()).toEqual({ kind: "duplicate", callId });
      await given.store.ack(await claimOne(given.store));
      await given.reopen();
      expect(await again()).toEqual({ kind: "duplicate", callId });
      expect(await claimCalls(given.store)).toEqual([]);
      expect(await acceptOnceId(delivery(["b"]))).toBeGreaterThan(callId);
    });

    test("A known key with another body is a conflict, and makes no call", async () => {
      const callId = await acceptOnceId(delivery(["a"], "one"));
      expect(await given.store.acceptOnce(webhookCall(), delivery(["a"], "other"))).toEqual({
        kind: "conflict",
      });
      expect(await given.store.acceptOnce(webhookCall(), delivery(["x", "a"], "other"))).toEqual({
        kind: "conflict",
      });
      expect(await given.store.acceptOnce(webhookCall(), delivery(["a"], "one"))).toEqual({
        kind: "duplicate",
        callId,
      });
      expect((await given.store.totals()).calls.ready).toBe(1);
      expect((await given.store.acceptOnce(webhookCall(), delivery(["x"], "other"))).kind).toBe("accepted");
    });

    test("Any identifying key is enough; another key is remembered with the latest call only", async () => {
      const first = await acceptOnceId(delivery(["id 1"], "hash", ["body"]));
      given.now += WINDOW_MS / 2;
      const second = await acceptOnceId(delivery(["id 2"], "hash", ["body"]));
      expect(second).toBeGreaterThan(first);
      given.now += WINDOW_MS / 2;
      for (const keys of [["body"], ["id 3", "body"], ["body", "id 2"]]) {
        expect(await given.store.acceptOnce(webhookCall(), delivery(keys))).toEqual({
          kind: "duplicate",
          callId: second,
        });
      }
      expect((await given.store.acceptOnce(webhookCall(), delivery(["id 3"]))).kind).toBe("accepted");
    });

    test("A delivery is remembered until its window ends, then it is new", async () => {
      const first = await acceptOnceId(delivery(["a"]));
      given.now += WINDOW_MS - 1;
      expect(await given.store.acceptOnce(webhookCall(), delivery(["a"]))).toEqual({
        kind: "duplicate",
        callId: first,
      });
      given.now += 1;
      const second = await acceptOnceId(delivery(["a"], "other hash"));
      expect(second).toBeGreaterThan(first);
      expect(await given.store.acceptOnce(webhookCall(), delivery(["a"], "other hash"))).toEqual({
        kind: "duplicate",
        callId: second,
      });
    });

    test("With a full queue a repeat still gets its call, and refused deliveries are not remembered", async () => {
      const callId = await acceptOnceId(delivery(["a"]));
      for (let i = 1; i < MAX_PENDING; i += 1) await acceptId(given.store);
      expect(await given.store.acceptOnce(webhookCall(), delivery(["a"]))).toEqual({
        kind: "duplicate",
        callId,
      });
      expect(await given.store.acceptOnce(webhookCall(), delivery(["a"], "other"))).toEqual({
        kind: "conflict",
      });
      expect(await given.store.acceptOnce(webhookCall(), delivery(["b"]))).toEqual({ kind: "queue_full" });
      await given.store.ack(await claimOne(given.store, { limit: 1 }));
      expect((await given.store.acceptOnce(webhookCall(), delivery(["b"]))).kind).toBe("accepted");
    });

    test("Exactly one of 50 concurrent repeats is accepted, and the others get its call", async () => {
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, (_, i) =>
          given.store.acceptOnce(webhookCall(), delivery(i % 2 === 0 ? ["id", "body"] : ["body"])),
        ),
      );
      const accepted = outcomes.filter(({ kind }) => kind === "accepted");
      expect(accepted).toHaveLength(1);
      const [callId] = outcomes.flatMap((outcome) => (outcome.kind === "accepted" ? [outcome.callId] : []));
      const others = outcomes.filter(({ kind }) => kind !== "accepted");
      expect(others).toEqual(Array.from({ length: 49 }, () => ({ kind: "duplicate", callId })));
      expect((await given.store.totals()).calls.ready).toBe(1);
    });
  });
}
