import { describe, expect, test } from "vitest";
import {
  acceptId,
  claimCalls,
  claimOne,
  claimRequest,
  LEASE_MS,
  NO_BACKOFF,
  START_MS,
} from "../store-fixtures.ts";
import { failAll, type Given, idsOf, MAX_PENDING, retryNow } from "./given.ts";

export function describeDeadLetters(given: Given): void {
  describe("dead letters", () => {
    test("A call becomes a dead letter when its last lease runs out", async () => {
      const callId = await acceptId(given.store, { serviceId: 9n });
      for (let attempt = 1; attempt <= 3; attempt += 1) {
        expect((await claimOne(given.store)).attempt).toBe(attempt);
        given.now += LEASE_MS;
      }
      const behind = await acceptId(given.store);
      expect(idsOf(await claimCalls(given.store, { limit: 1 }))).toEqual([behind]);
      expect(await given.store.listDeadLetters({ limit: 10 })).toEqual([
        {
          callId,
          origin: "webhook",
          jobId: 30n,
          serviceId: 9n,
          attempts: 3,
          reason: "max_attempts",
          enqueuedAt: START_MS,
          deadAt: given.now,
        },
      ]);
    });

    test("A claim for any job, and expireLeases, make dead letters of calls with an expired last lease", async () => {
      const expiries = [
        async () => (await given.store.claim(claimRequest({ maxAttempts: 1, jobIds: [31n] }))).buried,
        () => given.store.expireLeases(1),
      ];
      for (const expire of expiries) {
        const callId = await acceptId(given.store, { jobId: 30n });
        const other = await acceptId(given.store, { jobId: 32n });
        await claimCalls(given.store, { jobIds: [30n], maxAttempts: 1 });
        await claimCalls(given.store, { jobIds: [32n] });
        given.now += LEASE_MS;
        const before = await given.store.totals();
        const buried = { reason: "max_attempts", deadAt: given.now };
        expect(await expire()).toEqual([
          { callId, ...buried },
          { callId: other, ...buried },
        ]);
        expect(await expire()).toEqual([]);
        expect(await given.store.findDeadLetter(callId)).toMatchObject(buried);
        // 32 was claimed once as well.
        expect((await given.store.findDeadLetter(other))?.attempts).toBe(1);
        expect((await given.store.totals()).calls.dead).toBe(before.calls.dead + 2);
      }
      // Dead letters are no work that waits.
      for (let i = 0; i < MAX_PENDING; i++) await acceptId(given.store);
    });

    test("A retry of the last attempt makes a dead letter, with the retry's reason", async () => {
      const callId = await acceptId(given.store);
      for (let attempt = 1; attempt <= 3; attempt += 1) {
        const ended = await given.store.retry(await claimOne(given.store), retryNow("database is down"));
        const buried = { callId, reason: "max_attempts: database is down", deadAt: given.now };
        expect(ended).toEqual({ outcome: "done", ...(attempt < 3 ? {} : { buried }) });
      }
      expect(await claimCalls(given.store)).toEqual([]);
      expect((await given.store.findDeadLetter(callId))?.reason).toBe("max_attempts: database is down");
    });

    test("Excused releases do not count towards maxAttempts, but the attempt number continues", async () => {
      await acceptId(given.store);
      for (let attempt = 1; attempt <= 6; attempt += 1) {
        const call = await claimOne(given.store);
        expect(call.attempt).toBe(attempt);
        await given.store.release(call, { excused: attempt <= 3, maxAttempts: 3, backoff: NO_BACKOFF });
      }
      given.now += LEASE_MS;
      await given.store.expireLeases(3);
      expect((await given.store.listDeadLetters({ limit: 1 }))[0]?.attempts).toBe(6);
    });

    test("A failed call becomes a dead letter with its reason and bytes, also after a restart", async () => {
      const callId = await acceptId(given.store, { body: Buffer.from("poison") });
      await failAll(given.store, "cannot parse");
      await given.reopen();
      const letter = await given.store.findDeadLetter(callId);
      expect(letter?.reason).toBe("cannot parse");
      expect(Buffer.from(letter?.encoded ?? []).toString()).toBe("poison");
      expect(await claimCalls(given.store)).toEqual([]);
    });

    test("A retried dead letter has its attempts forgiven, and its attempt number continues", async () => {
      const callId = await acceptId(given.store);
      for (let attempt = 1; attempt <= 3; attempt += 1)
        await given.store.retry(await claimOne(given.store), retryNow());
      expect(await given.store.retryDeadLetter(callId)).toBe(true);
      expect(await given.store.retryDeadLetter(callId)).toBe(false);
      for (let attempt = 4; attempt <= 6; attempt += 1) {
        const call = await claimOne(given.store);
        expect(call.attempt).toBe(attempt);
        await given.store.retry(call, retryNow());
      }
      expect((await given.store.findDeadLetter(callId))?.attempts).toBe(6);
    });

    test("A dropped dead letter is gone; only dead letters can be retried or dropped", async () => {
      const callId = await acceptId(given.store);
      expect(await given.store.dropDeadLetter(callId)).toBe(false);
      expect(await given.store.retryDeadLetter(callId)).toBe(false);
      expect(await given.store.findDeadLetter(callId)).toBeUndefined();
      await failAll(given.store);
      expect(await given.store.dropDeadLetter(callId)).toBe(true);
      expect(await given.store.dropDeadLetter(callId)).toBe(false);
      expect(await given.store.listDeadLetters({ limit: 10 })).toEqual([]);
      expect((await given.store.totals()).calls.dead).toBe(0);
    });

    test("Dead letters are listed newest first and in pages", async () => {
      const ids = [await acceptId(given.store), await acceptId(given.store), await acceptId(given.store)];
      await failAll(given.store);
      const page = await given.store.listDeadLetters({ limit: 2 });
      expect(idsOf(page)).toEqual([ids[2], ids[1]]);
      expect(idsOf(await given.store.listDeadLetters({ limit: 2, before: page[1]?.callId ?? 0 }))).toEqual([
        ids[0],
      ]);
    });
  });
}
