import { describe, expect, test } from "vitest";
import { GROUPED_CHARACTERS } from "../../../src/store/contract/dead-letter-box.ts";
import type { CallFilter } from "../../../src/store/contract/operator-lists.ts";
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
      expect((await given.store.listCalls({ state: "dead", limit: 10 })).items).toEqual([
        {
          callId,
          origin: "webhook",
          jobId: 30n,
          serviceId: 9n,
          state: "dead",
          attempts: 3,
          reason: "max_attempts",
          enqueuedAt: START_MS,
          finishedAt: given.now,
        },
      ]);
    });

    test("A claim for any job, and expireLeases, make dead letters of calls with an expired last lease", async () => {
      const expiries = [
        async () => (await given.store.claim(claimRequest({ maxAttempts: 1, jobIds: [31n] }))).deadLettered,
        () => given.store.expireLeases(1),
      ];
      for (const expire of expiries) {
        const callId = await acceptId(given.store, { jobId: 30n });
        const other = await acceptId(given.store, { jobId: 32n });
        await claimCalls(given.store, { jobIds: [30n], maxAttempts: 1 });
        await claimCalls(given.store, { jobIds: [32n] });
        given.now += LEASE_MS;
        const before = await given.store.totals();
        const deadLettered = { reason: "max_attempts", deadAt: given.now };
        expect(await expire()).toEqual([
          { callId, ...deadLettered },
          { callId: other, ...deadLettered },
        ]);
        expect(await expire()).toEqual([]);
        expect(await given.store.findDeadLetter(callId)).toMatchObject(deadLettered);
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
        const deadLettered = { callId, reason: "max_attempts: database is down", deadAt: given.now };
        expect(ended).toEqual({ outcome: "done", ...(attempt < 3 ? {} : { deadLettered }) });
      }
      expect(await claimCalls(given.store)).toEqual([]);
      expect((await given.store.findDeadLetter(callId))?.reason).toBe("max_attempts: database is down");
    });

    test("Excused releases do not count towards maxAttempts, but the attempt number continues", async () => {
      const callId = await acceptId(given.store);
      for (let attempt = 1; attempt <= 6; attempt += 1) {
        const call = await claimOne(given.store);
        expect(call.attempt).toBe(attempt);
        await given.store.release(call, { excused: attempt <= 3, maxAttempts: 3, backoff: NO_BACKOFF });
      }
      given.now += LEASE_MS;
      await given.store.expireLeases(3);
      expect((await given.store.findDeadLetter(callId))?.attempts).toBe(6);
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
      expect(await given.store.retryDeadLetter(callId)).toBe("retried");
      expect(await given.store.retryDeadLetter(callId)).toBe("not_found");
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
      expect(await given.store.retryDeadLetter(callId)).toBe("not_found");
      expect(await given.store.findDeadLetter(callId)).toBeUndefined();
      await failAll(given.store);
      expect(await given.store.dropDeadLetter(callId)).toBe(true);
      expect(await given.store.dropDeadLetter(callId)).toBe(false);
      expect((await given.store.totals()).calls.dead).toBe(0);
    });

    test("Dead letters are counted by job and reason, the largest group first, and each group is listed", async () => {
      const deadLetter = async (reason: string, call = {}) => {
        const callId = await acceptId(given.store, call);
        await failAll(given.store, reason);
        given.now += 1;
        return callId;
      };
      const job = { origin: "webhook", serviceId: 1n, jobId: 30n } as const;
      const [first, other, paper, second] = [
        await deadLetter("no ink", job),
        await deadLetter("no ink", { ...job, serviceId: 2n }),
        await deadLetter("no paper", job),
        await deadLetter("no ink", job),
      ];
      const times = (at: number) => ({ oldestDeadAt: START_MS + at, newestDeadAt: START_MS + at });
      const inkOfJob = { ...job, reason: "no ink" };
      const expected = [
        { ...inkOfJob, count: 2, oldestDeadAt: START_MS, newestDeadAt: START_MS + 3 },
        { ...job, reason: "no paper", count: 1, ...times(2) },
        { ...inkOfJob, serviceId: 2n, count: 1, ...times(1) },
      ];
      const totals = { totalGroups: 3, totalDeadLetters: 4 };
      expect(await given.store.listDeadLetterGroups(10)).toEqual({ groups: expected, ...totals });
      const largest = { groups: expected.slice(0, 1), ...totals };
      expect(await given.store.listDeadLetterGroups(1)).toEqual(largest);

      const list = (filter: Partial<CallFilter>) =>
        given.store.listCalls({ state: "dead", limit: 1, ...filter });
      const page = await list(inkOfJob);
      expect(page).toMatchObject({ items: [{ callId: second }], next: second });
      expect(idsOf((await list({ ...inkOfJob, before: second })).items)).toEqual([first]);
      expect(await list({ ...inkOfJob, before: first })).toEqual({ items: [] });
      expect(idsOf((await list({ reason: "no ink", limit: 10 })).items)).toEqual([second, other, first]);
      expect(idsOf((await list({ jobId: 30n, reason: "no paper" })).items)).toEqual([paper]);
      await given.store.retryDeadLetter(paper);
      expect((await given.store.listDeadLetterGroups(10)).totalDeadLetters).toBe(3);
    });

    test("Reasons that differ in numbers only are one group, which a text in any letter case finds", async () => {
      const ids: number[] = [];
      const reasons = [
        "Printer 12: no ink after 0.5 s",
        "Printer 7: no ink after 31.25 s",
        "Printer: NO PAPER É",
        "ink",
      ];
      for (const reason of reasons) {
        ids.push(await acceptId(given.store));
        await failAll(given.store, reason);
      }
      const reason = "Printer #: no ink after #.# s";
      const { groups } = await given.store.listDeadLetterGroups(10);
      expect(groups).toMatchObject([{ reason, count: 2 }, { count: 1 }, { count: 1 }]);
      const found = async (text: string, limit = 10) => {
        const { groups, ...totals } = await given.store.listDeadLetterGroups(limit, text);
        return [groups.map((group) => group.reason), totals];
      };
      expect(await found("INK")).toEqual([[reason, "ink"], { totalGroups: 2, totalDeadLetters: 3 }]);
      expect(await found("ink", 1)).toEqual([[reason], { totalGroups: 2, totalDeadLetters: 3 }]);
      expect(await found("printer 3: ")).toEqual([[reason], { totalGroups: 1, totalDeadLetters: 2 }]);
      expect(await found("paper é")).toEqual([
        ["Printer: NO PAPER É"],
        { totalGroups: 1, totalDeadLetters: 1 },
      ]);
      expect(await found("no such")).toEqual([[], { totalGroups: 0, totalDeadLetters: 0 }]);
      const listed = [
        { origin: "webhook", serviceId: 1n, jobId: 30n, reason },
        { jobId: 30n, reason },
      ] as const;
      for (const filter of listed) {
        const { items } = await given.store.listCalls({ state: "dead", limit: 10, ...filter });
        expect(items.map(({ callId, reason }) => [callId, reason])).toEqual([
          [ids[1], reasons[1]],
          [ids[0], reasons[0]],
        ]);
      }
    });

    test("Reasons of any length are grouped by their beginning", async () => {
      const start = "\u{1F5A8}".repeat(GROUPED_CHARACTERS);
      const ids: number[] = [];
      for (const end of ["a".repeat(3_000), "b", ""]) {
        ids.unshift(await acceptId(given.store));
        await failAll(given.store, start + end);
      }
      const { groups } = await given.store.listDeadLetterGroups(10);
      expect(groups).toMatchObject([{ reason: start, count: 3 }]);
      const filter = { origin: "webhook", serviceId: 1n, jobId: 30n } as const;
      const { items } = await given.store.listCalls({ state: "dead", ...filter, reason: start, limit: 10 });
      expect(idsOf(items)).toEqual(ids);
    });
  });
}
