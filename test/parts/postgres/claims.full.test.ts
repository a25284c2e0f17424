import { beforeEach, describe, expect, test } from "vitest";
import { idsOf } from "../../store/contract/given.ts";
import { acceptId, claimCalls } from "../../store/store-fixtures.ts";
import { givenReplica } from "./given-replica.ts";

const JOB_IDS = Array.from({ length: 20 }, (_, job) => BigInt(job));

const given = givenReplica();
beforeEach(async () => {
  // Call 1 for job 0, call 2 for job 1 and so on, over and over.
  for (let i = 0; i < 100; i += 1) await acceptId(given.store, { jobId: BigInt(i % JOB_IDS.length) });
});

describe("A claim of some jobs", () => {
  test("It takes the oldest calls of all of them, and locks no others", async () => {
    const claimed = await claimCalls(given.store, { jobIds: JOB_IDS, limit: 7 });
    expect(idsOf(claimed)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    // It is 0 for a row that was not locked since it was written.
    const locked = await given.postgres.query(
      given.url,
      "SELECT FROM jobgate.job_calls WHERE call_id > 7 AND xmax <> 0",
    );
    expect(locked).toHaveLength(0);
  });

  test("It skips any number of locked calls without waiting", async () => {
    const other = await given.postgres.hold(
      given.url,
      "SELECT FROM jobgate.job_calls WHERE call_id <= 90 AND call_id <> 50 FOR UPDATE",
    );
    const claim = () => claimCalls(given.store, { jobIds: JOB_IDS, limit: 4 });
    expect(idsOf(await claim())).toEqual([50, 91, 92, 93]);
    expect(idsOf(await claim())).toEqual([94, 95, 96, 97]);
    expect(idsOf(await claim())).toEqual([98, 99, 100]);
    expect(await claim()).toEqual([]);
    await other.commit();
    expect(idsOf(await claim())).toEqual([1, 2, 3, 4]);
  });
});

describe("A claim of all jobs but some", () => {
  const except = { exceptJobIds: JOB_IDS.slice(0, 18) };

  test("It takes the oldest calls of the other jobs, and locks no others", async () => {
    const claimed = await claimCalls(given.store, { ...except, limit: 3 });
    expect(idsOf(claimed)).toEqual([19, 20, 39]);
    const locked = await given.postgres.query(
      given.url,
      "SELECT FROM jobgate.job_calls WHERE call_id NOT IN (19, 20, 39) AND xmax <> 0",
    );
    expect(locked).toHaveLength(0);
    expect(await claimCalls(given.store, { exceptJobIds: JOB_IDS })).toEqual([]);
  });
});
