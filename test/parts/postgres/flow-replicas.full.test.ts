import { beforeEach, expect, onTestFinished, test } from "vitest";
import type { JobLimit } from "../../../src/core/job-call.ts";
import type { ClaimedCall } from "../../../src/store/contract/work-queue.ts";
import type { Store } from "../../../src/store/store.ts";
import { startPostgres } from "../../helpers/postgres.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { acceptId, claimRequest, NO_BACKOFF } from "../../store/store-fixtures.ts";
import { openReplica, PATIENT } from "./open-in-database.ts";

const JOB = 30n;
const KEYS = 8;
const OF_EACH_KEY = 20;
const RUNNERS = 6;
/** Claims of one runner that find nothing, after which the test fails. */
const MOST_CLAIMS = 5_000;

const postgres = startBeforeAll(startPostgres);
let replicas: readonly [Store, Store];

beforeEach(async () => {
  const url = await postgres.createDatabase();
  replicas = await Promise.all([
    openReplica(url, { timeouts: PATIENT }),
    openReplica(url, { timeouts: PATIENT }),
  ]);
  onTestFinished(async () => {
    await Promise.all(replicas.map((store) => store.close()));
  });
});

/** Runs every JobCall by runners of both replicas. @param run ends a JobCall; returns false if it is delivered again */
async function runAll(
  count: number,
  limit: Omit<JobLimit, "jobId"> | undefined,
  run: (store: Store, call: ClaimedCall) => Promise<boolean>,
): Promise<void> {
  let left = count;
  const limits = limit === undefined ? [] : [{ jobId: JOB, ...limit }];
  const runner = async (number: number) => {
    const store = replicas[number % 2] as Store;
    for (let claims = 0; left > 0; claims++) {
      if (claims > MOST_CLAIMS) throw new Error(`${left} JobCalls are never delivered`);
      const { calls } = await store.claim(claimRequest({ limit: 1 + (number % 4), limits }));
      const ended = await Promise.all(calls.map((call) => run(store, call)));
      left -= ended.filter(Boolean).length;
    }
  };
  await Promise.all(Array.from({ length: RUNNERS }, (_, i) => runner(i)));
}

test("Runners of two replicas never have more JobCalls of a job than its limit, and get all of them", async () => {
  const concurrency = 3;
  const count = 120;
  await Promise.all(Array.from({ length: count }, (_, i) => acceptId(replicas[i % 2] as Store)));
  let out = 0;
  let most = 0;
  await runAll(count, { concurrency }, async (store, call) => {
    out += 1;
    most = Math.max(most, out);
    // Other claims happen meanwhile.
    await store.findCall(call.callId);
    out -= 1;
    return (await store.ack(call)).outcome === "done";
  });
  // A claim hands out up to 4 JobCalls, so a limit that is ignored shows in a single claim.
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(concurrency);
});

test("JobCalls of one key are out one at a time and in the order of acceptance at two replicas, through retries and dead letters", async () => {
  const accepted = new Map<string, number[]>();
  const keyOf = new Map<number, string>();
  const acceptKey = async (key: string, at: number) => {
    const ids: number[] = [];
    accepted.set(key, ids);
    for (let i = 0; i < OF_EACH_KEY; i++) {
      const order = { owner: "/hooks/a", key, holdsOnDead: false };
      const id = await acceptId(replicas[(at + i) % 2] as Store, { order });
      ids.push(id);
      keyOf.set(id, key);
    }
  };
  const accepting = Promise.all(Array.from({ length: KEYS }, (_, i) => acceptKey(`key ${i}`, i)));
  const out = new Map<string, number>();
  const begun = new Map<string, number[]>();
  await accepting;
  await runAll(KEYS * OF_EACH_KEY, undefined, async (store, call) => {
    const key = keyOf.get(call.callId) ?? expect.fail();
    expect(out.get(key)).toBeUndefined();
    out.set(key, call.callId);
    const ids = begun.get(key) ?? [];
    begun.set(key, ids.at(-1) === call.callId ? ids : [...ids, call.callId]);
    await store.findCall(call.callId);
    out.delete(key);
    const kind = (call.callId + call.attempt) % 5;
    if (kind === 0 && call.attempt < 3) {
      await store.retry(call, { delayMs: 0, backoff: NO_BACKOFF, maxAttempts: 9, reason: "again" });
      return false;
    }
    if (kind === 1) await store.fail(call, "no");
    else await store.ack(call);
    return true;
  });
  expect(begun).toEqual(accepted);
});
