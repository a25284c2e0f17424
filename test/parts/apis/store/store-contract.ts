import { describe, expect, test } from "vitest";
import { RESERVED_JOBS } from "../../../../src/parts/apis/store/module.ts";
import type { ClaimRequest } from "../../../../src/store/contract/work-queue.ts";
import type { Given } from "../../../store/contract/given.ts";
import { acceptId, claimCalls, claimOne, NO_BACKOFF } from "../../../store/store-fixtures.ts";

const [JOB, OTHER] = [30n, 31n];

export function describeReservedJobs(given: Given): void {
  const ledger = () => given.store.of(RESERVED_JOBS);
  const claim = (request: Partial<ClaimRequest>) => claimCalls(given.store, request);
  const accept = (jobId: bigint) => acceptId(given.store, { jobId });
  const ids = (calls: readonly { readonly callId: number }[]) => calls.map(({ callId }) => callId);

  describe("reserved jobs", () => {
    test("Their calls go only to claims that reserve jobs, until the jobs are released", async () => {
      await ledger().reserveJobs([JOB]);
      await ledger().reserveJobs([JOB]);
      const [first, other] = [await accept(JOB), await accept(OTHER)];
      expect(await claim({ jobIds: [JOB] })).toEqual([]);
      expect(ids(await claim({ jobIds: [] }))).toEqual([other]);
      expect(await claim({ jobIds: [JOB, OTHER], exceptJobIds: [OTHER] })).toEqual([]);
      expect(ids(await claim({ jobIds: [JOB], reserves: true }))).toEqual([first]);
      const second = await accept(JOB);
      expect(await claim({ jobIds: [], exceptJobIds: [OTHER] })).toEqual([]);
      await ledger().releaseJobs([JOB, OTHER]);
      expect(ids(await claim({ jobIds: [] }))).toEqual([second]);
    });

    test("Their limits and suspects make no difference", async () => {
      await ledger().reserveJobs([JOB]);
      await accept(JOB);
      const limits = [{ jobId: JOB, concurrency: 5 }];
      for (const jobIds of [[], [JOB]]) expect(await claim({ jobIds, limits })).toEqual([]);
      const taken = await claimOne(given.store, { jobIds: [JOB], reserves: true });
      const lost = { excused: false, suspect: false, maxAttempts: 5, backoff: NO_BACKOFF };
      await given.store.release(taken, lost);
      given.now += 1;
      for (const jobIds of [[], [JOB]]) expect(await claim({ jobIds, suspects: 5, limits })).toEqual([]);
      expect(await claim({ jobIds: [JOB], suspects: 5, reserves: true })).toMatchObject([
        { callId: taken.callId, suspect: true },
      ]);
    });

    test("They are listed with the number of their waiting calls, and stay over a restart", async () => {
      await ledger().reserveJobs([OTHER, JOB]);
      await Promise.all([accept(JOB), accept(JOB)]);
      const taken = await claimOne(given.store, { jobIds: [JOB], reserves: true, limit: 1 });
      await given.reopen();
      const listed = (waiting: number, leased: number) => [
        { jobId: JOB, waiting, leased },
        { jobId: OTHER, waiting: 0, leased: 0 },
      ];
      expect(await ledger().listReservedJobs()).toEqual(listed(1, 1));
      const retry = { delayMs: 5_000, maxAttempts: 5, backoff: NO_BACKOFF, reason: "busy" };
      await given.store.retry(taken, retry);
      expect(await ledger().listReservedJobs()).toEqual(listed(2, 0));
    });
  });
}
