import { describe, expect, test } from "vitest";
import { FLOW } from "../../../../src/parts/flow/store/module.ts";
import { type Given, idsOf } from "../../../store/contract/given.ts";
import {
  acceptId,
  claimCalls,
  claimOne,
  LEASE_MS,
  NO_BACKOFF,
  webhookCall,
} from "../../../store/store-fixtures.ts";
import { describeLimits } from "./limit-contract.ts";
import { describePausedKeys } from "./pause-contract.ts";

const OWNER = "/hooks/orders";

export function describeFlow(given: Given): void {
  const ledger = () => given.store.of(FLOW);
  const accept = (key: string, { owner = OWNER, holdsOnDead = false } = {}) =>
    acceptId(given.store, { order: { owner, key, holdsOnDead } });
  const claim = () => claimCalls(given.store, { limit: 10 });
  const retry = { delayMs: 5_000, backoff: NO_BACKOFF, maxAttempts: 3, reason: "later" };

  describeLimits(given);
  describePausedKeys(given);

  describe("order", () => {
    test("One JobCall of a key is out at a time, in the order of acceptance, beside JobCalls of other keys", async () => {
      const [a1, a2, b1, a3] = [await accept("a"), await accept("a"), await accept("b"), await accept("a")];
      const elsewhere = await accept("a", { owner: "/hooks/other" });
      const unordered = await acceptId(given.store);
      const [first] = await claim().then((claimed) => {
        expect(idsOf(claimed)).toEqual([a1, b1, elsewhere, unordered]);
        return claimed;
      });
      expect(await claim()).toEqual([]);
      await given.store.ack(first ?? expect.fail());
      const second = await claimOne(given.store);
      expect(second.callId).toBe(a2);
      await given.store.ack(second);
      expect(idsOf(await claim())).toEqual([a3]);
    });

    test("The key of a JobCall is found with what waits before it, and keys by their beginning", async () => {
      const a1 = await accept("a");
      const [a2, a3] = [await accept("a"), await accept("a")];
      await accept("ab");
      await accept("b");
      await accept("a", { owner: "/hooks/other" });
      const unordered = await acceptId(given.store);
      const of = { owner: OWNER, key: "a", deadLetter: undefined, pause: undefined };
      expect(await ledger().findKeyOf(a1)).toEqual({ ...of, before: 0 });
      expect(await ledger().findKeyOf(a3)).toEqual({ ...of, before: 1 });
      expect(await ledger().findKeyOf(unordered)).toBeUndefined();
      expect(await ledger().findKeyOf(a3 + 99)).toBeUndefined();
      const found = [
        { owner: OWNER, key: "a", callId: a2 },
        { owner: OWNER, key: "ab", callId: undefined },
      ];
      expect(await ledger().findKeys({ owner: OWNER, key: "a" }, 10)).toEqual(found);
      expect(await ledger().findKeys({ owner: OWNER, key: "a" }, 1)).toEqual(found.slice(0, 1));
    });

    test("Its end and the next JobCall of a key can share a batch", async () => {
      await accept("a");
      const first = await claimOne(given.store);
      const [, second] = await Promise.all([given.store.ack(first), accept("a")]);
      expect((await claimOne(given.store)).callId).toBe(second);
    });

    test("A retry, a release and a lost lease hold up their own key, and nothing else", async () => {
      const [a1] = [await accept("a"), await accept("a")];
      await given.store.retry(await claimOne(given.store), retry);
      expect(await claim()).toEqual([]);
      const b1 = await accept("b");
      expect(idsOf(await claim())).toEqual([b1]);
      given.now += retry.delayMs;
      const again = await claimOne(given.store);
      expect(again.callId).toBe(a1);
      await given.store.release(again, { excused: true, maxAttempts: 3, backoff: NO_BACKOFF });
      const third = await claimOne(given.store);
      expect(third.callId).toBe(a1);
      given.now += LEASE_MS;
      expect(idsOf(await claim())).toEqual([a1, b1]);
    });

    test("A dead letter lets the next JobCall of its key go on, and comes after it when it is retried", async () => {
      const [a1, a2, a3] = [await accept("a"), await accept("a"), await accept("a")];
      await given.store.fail(await claimOne(given.store), "no");
      const second = await claimOne(given.store);
      expect(second.callId).toBe(a2);
      expect(await given.store.retryDeadLetter(a1)).toBe("retried");
      expect(await claim()).toEqual([]);
      await given.store.ack(second);
      const third = await claimOne(given.store);
      expect(third.callId).toBe(a1);
      await given.store.ack(third);
      const last = await claimOne(given.store);
      expect(last.callId).toBe(a3);
      await given.store.ack(last);
      expect(await ledger().countKeys()).toEqual([]);
    });

    test("A dead letter that nothing waits for is out at once when it is retried", async () => {
      const a1 = await accept("a");
      await given.store.fail(await claimOne(given.store), "no");
      expect(await ledger().countKeys()).toEqual([]);
      await given.store.retryDeadLetter(a1);
      expect(idsOf(await claim())).toEqual([a1]);
      await accept("a");
      expect(await claim()).toEqual([]);
    });

    test("A dead letter that was passed and is dropped leaves its key as it is", async () => {
      const [a1, a2, a3] = [await accept("a"), await accept("a"), await accept("a")];
      await given.store.fail(await claimOne(given.store), "no");
      const second = await claimOne(given.store);
      expect(second.callId).toBe(a2);
      expect(await given.store.dropDeadLetter(a1)).toBe(true);
      expect(await claim()).toEqual([]);
      await given.store.ack(second);
      expect(idsOf(await claim())).toEqual([a3]);
    });

    test("A dead letter that holds its key up is listed and counted until it is retried or dropped", async () => {
      const hold = { holdsOnDead: true };
      const [a1, a2, a3] = [await accept("a", hold), await accept("a", hold), await accept("a", hold)];
      await accept("b", hold);
      await given.store.fail(await claimOne(given.store, { limit: 1 }), "no");
      const since = given.now;
      expect(await ledger().listHeldKeys(10)).toEqual([
        { owner: OWNER, key: "a", waiting: 2, deadLetter: { callId: a1, since }, pause: undefined },
      ]);
      expect(await ledger().countKeys()).toEqual([{ owner: OWNER, keys: 2, held: 1, paused: 0, waiting: 2 }]);
      given.now += 1_000;
      await given.store.retryDeadLetter(a1);
      expect(await ledger().listHeldKeys(10)).toEqual([]);
      const again = await claimOne(given.store, { limit: 1 });
      expect(again.callId).toBe(a1);
      await given.store.fail(again, "no");
      expect(await ledger().listHeldKeys(10)).toMatchObject([
        { deadLetter: { callId: a1, since: given.now } },
      ]);
      await given.store.dropDeadLetter(a1);
      expect(await ledger().listHeldKeys(10)).toEqual([]);
      const second = await claimOne(given.store, { limit: 1 });
      expect(second.callId).toBe(a2);
      await given.store.ack(second);
      expect(idsOf(await claim())).toContain(a3);
    });

    test("A JobCall that uses up its attempts in a claim hands its key over", async () => {
      const [a1, a2] = [await accept("a"), await accept("a")];
      await claimOne(given.store);
      given.now += LEASE_MS;
      const claimed = await given.store.claim({
        ...{ limit: 5, jobIds: [], leaseMs: LEASE_MS, maxAttempts: 1, subscriber: "" },
      });
      expect(claimed.deadLettered).toMatchObject([{ callId: a1 }]);
      expect(claimed.calls).toEqual([]);
      expect(idsOf(await claim())).toEqual([a2]);
    });

    test("A repeated delivery takes no place in the queue of its key", async () => {
      const order = { owner: OWNER, key: "a", holdsOnDead: false };
      const delivery = { keys: [{ key: "d", identifies: true }], bodyHash: "", windowMs: 60_000 };
      for (let i = 0; i < 2; i += 1) await given.store.acceptOnce(webhookCall({ order }), delivery);
      await given.store.ack(await claimOne(given.store));
      expect(await claim()).toEqual([]);
      expect(await ledger().countKeys()).toEqual([]);
    });

    test("The listener of work hears of a JobCall that an ack made ready", async () => {
      const [, a2] = [await accept("a"), await accept("a")];
      const first = await claimOne(given.store);
      let heard: (() => void) | undefined;
      const hearing = new Promise<void>((resolve) => {
        heard = resolve;
      });
      const stop = given.store.onWork(() => heard?.());
      await given.store.ack(first);
      await hearing;
      stop();
      expect(idsOf(await claim())).toEqual([a2]);
    });

    test("A key that is idle leaves no row behind", async () => {
      for (const key of ["a", "b", "a"]) await accept(key);
      for (let left = 3; left > 0; left -= 1)
        await given.store.ack(await claimOne(given.store, { limit: 1 }));
      expect(await ledger().countKeys()).toEqual([]);
    });
  });
}
