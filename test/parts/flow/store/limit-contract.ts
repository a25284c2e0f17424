import { describe, expect, test } from "vitest";
import type { JobLimit } from "../../../../src/core/job-call.ts";
import { FLOW } from "../../../../src/parts/flow/store/module.ts";
import type { ClaimRequest } from "../../../../src/store/contract/work-queue.ts";
import { type Given, idsOf } from "../../../store/contract/given.ts";
import { acceptId, claimRequest, LEASE_MS, NO_BACKOFF } from "../../../store/store-fixtures.ts";

const JOB = 30n;
const OTHER = 31n;

export function describeLimits(given: Given): void {
  const accept = (jobId = JOB) => acceptId(given.store, { jobId });
  const claim = (limit: Omit<JobLimit, "jobId">, request: Partial<ClaimRequest> = {}) =>
    given.store.claim(claimRequest({ limit: 10, limits: [{ jobId: JOB, ...limit }], ...request }));

  describe("limits", () => {
    test("As many JobCalls of a job are out as its limit allows, over several claims, beside JobCalls of other jobs", async () => {
      const ids = [await accept(), await accept(), await accept()];
      const other = await accept(OTHER);
      const first = await claim({ concurrency: 2 });
      expect(idsOf(first.calls)).toEqual([...ids.slice(0, 2), other]);
      expect((await claim({ concurrency: 2 })).calls).toEqual([]);
      await given.store.ack(first.calls[0] ?? expect.fail());
      expect(idsOf((await claim({ concurrency: 2 }, { jobIds: [JOB] })).calls)).toEqual(ids.slice(2));
    });

    test("How much of its limits a job uses is found", async () => {
      const limit = { jobId: JOB, concurrency: 9, rate: { calls: 2, perMs: 60_000 } };
      const used = () => given.store.of(FLOW).findUsedLimit(limit);
      expect(await used()).toEqual({ out: 0, nextInMs: undefined });
      for (let i = 0; i < 3; i += 1) await accept();
      const { calls } = await claim(limit);
      expect(await used()).toEqual({ out: 2, nextInMs: expect.any(Number) });
      const { nextInMs = 0 } = await used();
      await given.store.ack(calls[0] ?? expect.fail());
      given.now += nextInMs - 1;
      expect(await used()).toEqual({ out: 1, nextInMs: 1 });
      given.now += 1;
      expect(await used()).toEqual({ out: 1, nextInMs: undefined });
    });

    test("Claims of one batch count what those before them took", async () => {
      for (let i = 0; i < 5; i += 1) await accept();
      const claims = await Promise.all([1, 2, 3].map(() => claim({ concurrency: 3 }, { limit: 2 })));
      expect(claims.map(({ calls }) => calls.length)).toEqual([2, 1, 0]);
    });

    test("A claim that shares the batch of an accept counts its JobCall", async () => {
      await accept();
      await claim({ concurrency: 1 });
      const [id, { calls }] = await Promise.all([accept(), claim({ concurrency: 2 })]);
      expect(idsOf(calls)).toEqual([id]);
      const [, none] = await Promise.all([accept(), claim({ concurrency: 2 })]);
      expect(none.calls).toEqual([]);
    });

    test("Each end of a lease frees a place: a retry, a failure, a release, and its time", async () => {
      for (let i = 0; i < 5; i += 1) await accept();
      const one = async () => {
        const { calls } = await claim({ concurrency: 1 });
        expect(calls.length).toBe(1);
        expect((await claim({ concurrency: 1 })).calls).toEqual([]);
        return calls[0] ?? expect.fail();
      };
      const retry = { delayMs: 999_999, backoff: NO_BACKOFF, maxAttempts: 9, reason: "later" };
      await given.store.retry(await one(), retry);
      await given.store.fail(await one(), "no");
      await given.store.release(await one(), { excused: true, maxAttempts: 9, backoff: NO_BACKOFF });
      await one();
      given.now += LEASE_MS;
      await one();
    });

    test("A suspect of a job is out like any other, and waits while the job is full", async () => {
      const [first] = [await accept(), await accept()];
      const { calls } = await claim({ concurrency: 1 });
      await given.store.release(calls[0] ?? expect.fail(), {
        excused: false,
        maxAttempts: 9,
        backoff: NO_BACKOFF,
      });
      const second = await claim({ concurrency: 1 }, { suspects: undefined });
      expect((await claim({ concurrency: 1 }, { suspects: 5 })).calls).toEqual([]);
      await given.store.ack(second.calls[0] ?? expect.fail());
      const again = await claim({ concurrency: 1 }, { suspects: 5 });
      expect(again.calls).toMatchObject([{ callId: first, suspect: true }]);
      await accept();
      expect((await claim({ concurrency: 1 }, { suspects: 5 })).calls).toEqual([]);
    });

    test("No more JobCalls go out in any time than the rate, and a claim says when the next one can go", async () => {
      const rate = { calls: 3, perMs: 1_000 };
      for (let i = 0; i < 20; i += 1) await accept();
      const starts: number[] = [];
      for (let round = 0; round < 8; round += 1) {
        const { calls, nextInMs } = await claim({ rate }, { limit: 1 + (round % 3) });
        for (const { callId } of calls) {
          starts.push(given.now);
          await given.store.ack({
            callId,
            leaseToken: calls.find((one) => one.callId === callId)?.leaseToken ?? "",
          });
        }
        given.now += nextInMs ?? 370;
      }
      expect(starts.length).toBeGreaterThan(8);
      for (const start of starts)
        expect(starts.filter((at) => at >= start && at < start + rate.perMs).length).toBeLessThanOrEqual(3);
      await claim({ rate });
      const { nextInMs } = await claim({ rate });
      given.now += (nextInMs ?? expect.fail()) - 1;
      expect((await claim({ rate })).calls).toEqual([]);
      given.now += 1;
      expect((await claim({ rate })).calls.length).toBeGreaterThan(0);
    });

    test("The limit of a job that a claim leaves out delays nothing, and is not asked", async () => {
      const rate = { calls: 1, perMs: 1_000 };
      for (let i = 0; i < 2; i += 1) await accept();
      expect((await claim({ rate })).nextInMs).toBeGreaterThan(0);
      for (const request of [{ jobIds: [OTHER] }, { exceptJobIds: [JOB] }])
        expect(await claim({ rate }, request)).toMatchObject({ calls: [], nextInMs: undefined });
    });

    test("A clock that is set back makes no JobCall wait longer than the time of the rate", async () => {
      const rate = { calls: 1, perMs: 1_000 };
      for (let i = 0; i < 3; i += 1) await accept();
      await claim({ rate });
      given.now -= 3_600_000;
      const { calls, nextInMs = Number.NaN } = await claim({ rate });
      expect(calls).toEqual([]);
      expect(nextInMs).toBeLessThanOrEqual(1_010);
      given.now += nextInMs;
      expect((await claim({ rate })).calls.length).toBe(1);
    });

    test("Limits hold over a restart", async () => {
      for (let i = 0; i < 4; i += 1) await accept();
      const limit = { concurrency: 3, rate: { calls: 2, perMs: 60_000 } };
      expect((await claim(limit)).calls.length).toBe(2);
      await given.reopen();
      expect((await claim(limit)).calls).toEqual([]);
      given.now += 60_600;
      expect((await claim({ ...limit, rate: { calls: 9, perMs: 60_000 } })).calls.length).toBe(3);
    });

    test("The listener of work hears of a place that an ack frees", async () => {
      for (let i = 0; i < 2; i += 1) await accept();
      const { calls } = await claim({ concurrency: 1 });
      let heard: (() => void) | undefined;
      const hearing = new Promise<void>((resolve) => {
        heard = resolve;
      });
      const stop = given.store.onWork(() => heard?.());
      await given.store.ack(calls[0] ?? expect.fail());
      await hearing;
      stop();
    });
  });
}
