import { describe, expect, test } from "vitest";
import type { ClaimedCall, ClaimRequest } from "../../../src/store/contract/work-queue.ts";
import {
  acceptId,
  claimCalls,
  claimOne,
  claimRequest,
  LEASE_MS,
  NO_BACKOFF,
  paidId,
} from "../store-fixtures.ts";
import { type Given, idsOf, retryNow } from "./given.ts";

/** Release of a JobCall whose stream ended. */
const LOST = { excused: false, maxAttempts: 3, backoff: NO_BACKOFF };

export function describeLeases(given: Given): void {
  describe("leases", () => {
    test("Calls are claimed in order of call ID, each by one claim only", async () => {
      const ids = [];
      for (let i = 0; i < 30; i += 1) ids.push(await acceptId(given.store));
      const claims = await Promise.all(
        Array.from({ length: 10 }, () => claimCalls(given.store, { limit: 4 })),
      );
      expect(idsOf(claims.flat())).toEqual(ids);
      expect(new Set(claims.flat().map(({ leaseToken }) => leaseToken)).size).toBe(30);
    });

    test("A filter returns calls of those jobs only, in order over all of them, each once", async () => {
      const big = 2n ** 64n - 1n;
      const jobs = [1n, 2n, big, 3n, 1n, big];
      const ids: number[] = [];
      for (const jobId of jobs) ids.push(await acceptId(given.store, { jobId }));
      const first = await claimCalls(given.store, { jobIds: [big, 1n, big], limit: 3 });
      expect(idsOf(first)).toEqual([ids[0], ids[2], ids[4]]);
      expect(idsOf(await claimCalls(given.store, { jobIds: [big, 1n] }))).toEqual([ids[5]]);
      expect(idsOf(await claimCalls(given.store))).toEqual([ids[1], ids[3]]);
    });

    test("A claim of all jobs leaves out the excepted jobs, also as suspects", async () => {
      const ids: number[] = [];
      for (const jobId of [1n, 2n, 1n]) ids.push(await acceptId(given.store, { jobId }));
      const except = { exceptJobIds: [1n, 2n ** 64n - 1n] };
      expect(idsOf(await claimCalls(given.store, except))).toEqual([ids[1]]);
      for (const call of await claimCalls(given.store, { jobIds: [1n], ...except }))
        await given.store.release(call, LOST);
      given.now += 1_000;
      const suspects = (overrides: Partial<ClaimRequest>) =>
        given.store.claim(claimRequest({ suspects: 9, limit: 9, ...overrides }));
      expect(await suspects(except)).toMatchObject({ calls: [], suspectsLeft: false });
      expect((await suspects({ jobIds: [1n] })).calls).toHaveLength(2);
    });

    test("A call that is accepted and claimed at once is left out as well", async () => {
      const accepted = [acceptId(given.store, { jobId: 1n }), acceptId(given.store, { jobId: 2n })];
      const claimed = claimCalls(given.store, { limit: 9, exceptJobIds: [1n] });
      const [, second] = await Promise.all(accepted);
      expect(idsOf(await claimed)).toEqual([second]);
    });

    test("A call with an expired lease goes to the next subscriber, with a higher attempt and in its old place", async () => {
      const first = await acceptId(given.store);
      const lost = await claimOne(given.store);
      const second = await acceptId(given.store);
      given.now += LEASE_MS;
      const claimed = await claimCalls(given.store);
      expect(idsOf(claimed)).toEqual([first, second]);
      expect(claimed[0]?.attempt).toBe(2);
      expect(claimed[0]?.leaseToken).not.toBe(lost.leaseToken);
      expect(await given.store.ack(lost)).toEqual({ outcome: "lease_lost" });
    });

    test("A lease ends exactly at its expiry, for each way to finish, even without a claim since", async () => {
      await acceptId(given.store);
      const lease = await claimOne(given.store);
      given.now += LEASE_MS;
      expect(await given.store.ack(lease)).toEqual({ outcome: "lease_lost" });
      expect(await given.store.fail(lease, "late")).toEqual({ outcome: "lease_lost" });
      expect(await given.store.retry(lease, retryNow())).toEqual({ outcome: "lease_lost" });
      expect(await given.store.release(lease, LOST)).toEqual({ outcome: "lease_lost" });
      expect((await given.store.extend(lease, LEASE_MS)).outcome).toBe("lease_lost");
      given.now -= 1;
      expect(await given.store.ack(lease)).toEqual({ outcome: "done" });
    });

    test("Results count towards the 16 MiB that are written at once", async () => {
      for (const number of [1, 2, 3]) await paidId(given.store, number);
      const leases = await claimCalls(given.store);
      const result = { body: Buffer.alloc(6 * 1024 * 1024, 1), contentType: "image/png" };
      given.batches.length = 0;
      const outcomes = await Promise.all(leases.map((lease) => given.store.ack(lease, result)));
      expect(outcomes).toEqual(leases.map(() => ({ outcome: "done" })));
      expect(given.batches.toSorted()).toEqual([1, 2]);
    });

    test("A wrong token is LEASE_LOST; a finished or unknown call is NOT_FOUND", async () => {
      const callId = await acceptId(given.store);
      const foreign = { callId, leaseToken: "foreign" };
      expect(await given.store.ack(foreign)).toEqual({ outcome: "lease_lost" });
      const lease = await claimOne(given.store);
      expect(await given.store.ack(foreign)).toEqual({ outcome: "lease_lost" });
      expect(await given.store.ack(lease)).toEqual({ outcome: "done" });
      expect(await given.store.ack(lease)).toEqual({ outcome: "not_found" });
      expect(await given.store.ack({ ...lease, callId: callId + 1 })).toEqual({ outcome: "not_found" });
      await acceptId(given.store);
      const dead = await claimOne(given.store);
      await given.store.fail(dead, "no good");
      expect(await given.store.retry(dead, retryNow())).toEqual({ outcome: "not_found" });
    });

    test("A call released as excused is due at once, and its old lease is lost", async () => {
      await acceptId(given.store);
      const released = await claimOne(given.store);
      expect(await given.store.release(released, { ...LOST, excused: true })).toEqual({ outcome: "done" });
      expect(await given.store.ack(released)).toEqual({ outcome: "lease_lost" });
      expect(await claimOne(given.store)).toMatchObject({ attempt: 2, suspect: false });
    });

    test("A call lost with its stream comes back after its backoff, and its old lease is lost", async () => {
      await acceptId(given.store);
      const lost = await claimOne(given.store);
      const backoff = { baseMs: 5000, maxMs: 5000 };
      expect(await given.store.release(lost, { ...LOST, backoff })).toEqual({ outcome: "done" });
      expect(await given.store.ack(lost)).toEqual({ outcome: "lease_lost" });
      const dueInMs = (await given.store.nextDueMs()) ?? Number.NaN;
      expect(dueInMs).toBeLessThan(5000);
      given.now += dueInMs;
      expect(await claimOne(given.store)).toMatchObject({ attempt: 2, suspect: true });
    });

    test("A claim takes suspects first and alone, no more than it requests, and reports the suspects that it leaves", async () => {
      const ids = [];
      for (let i = 0; i < 4; i += 1) ids.push(await acceptId(given.store, { jobId: BigInt(30 + (i % 2)) }));
      for (const call of await claimCalls(given.store, { limit: 3 })) await given.store.release(call, LOST);
      given.now += 1_000;
      expect(await given.store.nextDueMs()).toBeUndefined();
      const claim = (overrides: Partial<ClaimRequest>) => given.store.claim(claimRequest(overrides));

      expect(await claim({ suspects: undefined, limit: 0 })).toMatchObject({
        calls: [],
        suspectsLeft: false,
      });
      expect(await claim({ suspects: 0, limit: 0 })).toMatchObject({ calls: [], suspectsLeft: true });
      const ofJob = await claim({ suspects: 9, jobIds: [31n], limit: 1 });
      expect(ofJob).toMatchObject({ calls: [{ callId: ids[1], suspect: true }], suspectsLeft: false });
      const some = await claim({ suspects: 1 });
      expect(some).toMatchObject({ calls: [{ suspect: true }], suspectsLeft: true });
      const others = await claim({ suspects: 0 });
      expect(others).toMatchObject({ calls: [{ callId: ids[3], suspect: false }], suspectsLeft: true });
      const rest = await claim({ suspects: 2 });
      expect(rest).toMatchObject({ calls: [{ suspect: true }], suspectsLeft: false });
      expect(idsOf([...some.calls, ...rest.calls]).toSorted()).toEqual([ids[0], ids[2]]);
    });

    test("A suspect stays one over an excused release and a restart, and no longer once it was retried", async () => {
      await acceptId(given.store);
      await given.store.release(await claimOne(given.store), LOST);
      const suspect = await claimOne(given.store);
      await given.store.release(suspect, { ...LOST, excused: true, suspect: suspect.suspect });
      await given.reopen();
      const again = await claimOne(given.store);
      expect(again).toMatchObject({ attempt: 3, suspect: true });
      await given.store.retry(again, retryNow());
      expect(await claimOne(given.store)).toMatchObject({ attempt: 4, suspect: false });
    });

    test("A call whose streams all ended becomes a dead letter no sooner than its lease would have run out", async () => {
      const callId = await acceptId(given.store);
      for (let attempt = 1; attempt <= 3; attempt += 1)
        await given.store.release(await claimOne(given.store), LOST);
      given.now += LEASE_MS - 1;
      expect(await given.store.expireLeases(3)).toEqual([]);
      expect(await claimCalls(given.store)).toEqual([]);
      given.now += 1;
      expect(await given.store.expireLeases(3)).toEqual([
        { callId, reason: "max_attempts", deadAt: given.now },
      ]);
    });

    test("A dead letter that has used up its attempts says what the last attempt met", async () => {
      const due = await acceptId(given.store);
      await given.store.release(await claimOne(given.store), { ...LOST, reason: "first" });
      await given.store.release(await claimOne(given.store), { ...LOST, reason: "connection closed" });
      given.now += LEASE_MS;
      const reason = "max_attempts: connection closed";
      expect(await given.store.expireLeases(2)).toEqual([{ callId: due, reason, deadAt: given.now }]);
      expect((await given.store.findDeadLetter(due))?.reason).toBe(reason);
      const expiring = await acceptId(given.store);
      await given.store.release(await claimOne(given.store), { ...LOST, reason: "first" });
      await claimOne(given.store);
      given.now += LEASE_MS;
      expect(await given.store.expireLeases(2)).toMatchObject([{ callId: expiring, reason: "max_attempts" }]);
    });

    test("A ready JobCall above a lowered max_attempts becomes a dead letter with the reason of its last attempt", async () => {
      const callId = await acceptId(given.store);
      await given.store.retry(await claimOne(given.store), retryNow("busy"));
      const { deadLettered } = await given.store.claim(claimRequest({ maxAttempts: 1 }));
      expect(deadLettered).toMatchObject([{ callId, reason: "max_attempts: busy" }]);
    });

    test("An empty reason of the last attempt is not shown", async () => {
      await acceptId(given.store);
      await given.store.retry(await claimOne(given.store), retryNow(""));
      const { deadLettered } = await given.store.claim(claimRequest({ maxAttempts: 1 }));
      expect(deadLettered).toMatchObject([{ reason: "max_attempts" }]);
    });

    test("An extended lease runs out later", async () => {
      await acceptId(given.store);
      const lease = await claimOne(given.store);
      given.now += LEASE_MS - 1;
      expect(await given.store.extend(lease, 5000)).toEqual({
        outcome: "done",
        leaseExpiresAt: given.now + 5000,
      });
      given.now += 4999;
      expect(await claimCalls(given.store)).toEqual([]);
      expect(await given.store.nextDueMs()).toBe(1);
      given.now += 1;
      expect((await claimOne(given.store)).attempt).toBe(2);
    });

    test("A retried call is due after its delay and delays no other", async () => {
      const retried = await acceptId(given.store);
      await given.store.retry(await claimOne(given.store), { ...retryNow(), delayMs: 5000 });
      const other = await acceptId(given.store);
      expect(idsOf(await claimCalls(given.store))).toEqual([other]);
      expect(await given.store.nextDueMs()).toBe(5000);
      given.now += 5000;
      expect(await claimOne(given.store)).toMatchObject({ callId: retried, attempt: 2 });
    });

    test("Without a delay a retry waits for a random part of its backoff, which doubles up to its bound", async () => {
      const backoff = { baseMs: 1000, maxMs: 3000 };
      for (const boundMs of [1000, 2000, 3000, 3000]) {
        const delays: number[] = [];
        for (let i = 0; i < 10; i += 1) await acceptId(given.store);
        let calls = await claimCalls(given.store, { maxAttempts: 99 });
        for (let attempt = 1; attempt < [1000, 2000, 3000].indexOf(boundMs) + 1; attempt += 1) {
          await Promise.all(calls.map((call) => given.store.retry(call, { ...retryNow(), maxAttempts: 99 })));
          calls = await claimCalls(given.store, { maxAttempts: 99 });
        }
        for (const call of calls) {
          await given.store.retry(call, { backoff, maxAttempts: 99, reason: "again" });
          delays.push((await given.store.nextDueMs()) ?? Number.NaN);
          given.now += boundMs;
          await given.store.ack(await claimOne(given.store, { maxAttempts: 99, limit: 1 }));
        }
        expect(Math.min(...delays)).toBeGreaterThanOrEqual(0);
        expect(Math.max(...delays)).toBeLessThan(boundMs);
        expect(new Set(delays).size).toBeGreaterThan(3);
      }
    });

    test("nextDueMs is undefined while nothing is leased or delayed", async () => {
      await acceptId(given.store);
      expect(await given.store.nextDueMs()).toBeUndefined();
      await given.store.ack(await claimOne(given.store));
      expect(await given.store.nextDueMs()).toBeUndefined();
    });

    test("Leases survive a restart", async () => {
      await acceptId(given.store);
      await acceptId(given.store);
      const [acked, expired] = (await claimCalls(given.store)) as [ClaimedCall, ClaimedCall];
      await given.reopen();
      expect(await claimCalls(given.store)).toEqual([]);
      expect(await given.store.ack(acked)).toEqual({ outcome: "done" });
      given.now += LEASE_MS;
      expect((await claimOne(given.store)).callId).toBe(expired.callId);
    });
  });
}
