import { expect, onTestFinished, test } from "vitest";
import type { KeyLedger } from "../../src/parts/flow/store/ledger.ts";
import { FLOW } from "../../src/parts/flow/store/module.ts";
import type { Store } from "../../src/store/store.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { openReplica, PATIENT } from "../parts/postgres/open-in-database.ts";
import { acceptId, claimRequest, NO_BACKOFF } from "../store/store-fixtures.ts";

/** Claims of one runner, after which the test fails. */
const MOST_CLAIMS = 5_000;

const postgres = startBeforeAll(startPostgres);

test("A pause of a key at one replica stops claims of the other, through retries, lost races and dead letters", async () => {
  const url = await postgres.createDatabase();
  const replicas = await Promise.all([
    openReplica(url, { timeouts: PATIENT }),
    openReplica(url, { timeouts: PATIENT }),
  ]);
  onTestFinished(async () => {
    await Promise.all(replicas.map((store) => store.close()));
  });
  const [one, other] = replicas;
  const name = { owner: "/hooks/a", key: "paused" };
  const [here, there] = replicas.map((store) => store.of(FLOW)) as [KeyLedger, KeyLedger];
  const pause = async () => {
    await here.pauseKey({ ...name, by: "ada", note: "", refusesAccepts: false });
    for (const callId of await here.findCallsOfKey(name)) await one.withhold(callId);
  };
  const count = 60;
  const ids: number[] = [];
  for (let i = 0; i < count; i++)
    ids.push(await acceptId(replicas[i % 2] as Store, { order: { ...name, holdsOnDead: true } }));
  let isPaused = false;
  let pauses = 0;
  let left = count;
  let out = 0;
  const begun: number[] = [];
  const run = async (store: Store) => {
    for (let claims = 0; left > 0; claims++) {
      if (claims > MOST_CLAIMS) throw new Error(`${left} JobCalls are never delivered`);
      // A pause that was answered before the claim was sent.
      const wasPaused = isPaused;
      const round = pauses;
      const { calls } = await store.claim(claimRequest({ limit: 3 }));
      if (wasPaused && round === pauses && isPaused) expect(calls).toEqual([]);
      for (const call of calls) {
        out += 1;
        expect(out).toBe(1);
        if (begun.at(-1) !== call.callId) begun.push(call.callId);
        await store.findCall(call.callId);
        out -= 1;
        const kind = (call.callId + call.attempt) % 4;
        if (kind === 0 && call.attempt < 3)
          await store.retry(call, { delayMs: 0, backoff: NO_BACKOFF, maxAttempts: 9, reason: "again" });
        else {
          left -= 1;
          if (kind !== 1) await store.ack(call);
          else if ((await store.fail(call, "no")).deadLettered?.holdsKeyOf !== undefined)
            await store.dropDeadLetter(call.callId);
        }
      }
    }
  };
  const toggle = async () => {
    while (left > 0) {
      await pause();
      isPaused = true;
      for (let i = 0; i < 3; i++) await other.findCall(ids[0] ?? 0);
      isPaused = false;
      pauses += 1;
      expect(await there.resumeKey(name)).toBe(true);
    }
  };
  await Promise.all([...replicas, ...replicas].map(run).concat(toggle()));
  expect(pauses).toBeGreaterThan(5);
  expect(begun).toEqual(ids);
  expect(await there.countKeys()).toEqual([]);
});
