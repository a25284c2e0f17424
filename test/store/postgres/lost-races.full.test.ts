import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { Store } from "../../../src/store/store.ts";
import { type Postgres, startPostgres } from "../../helpers/postgres.ts";
import { acceptId, claimOne, claimRequest, webhookCall } from "../store-fixtures.ts";
import { openReplica } from "./open-in-database.ts";

let postgres: Postgres;
let url: string;
let store: Store;

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  url = await postgres.createDatabase();
  store = await openReplica(url);
});
afterEach(() => store.close());

test("A batch that loses a race leaves nothing behind: what its claim found is claimed by whom it is told", async () => {
  // The bodies take a while to arrive, so that the race is lost while the claim still looks for more.
  for (let i = 0; i < 6; i += 1) await acceptId(store, { body: Buffer.alloc(1_000_000, 7) });
  await store.release(await claimOne(store, { limit: 1, maxAttempts: 1 }), {
    excused: false,
    maxAttempts: 2,
  });

  const winner = await postgres.hold(url, "INSERT INTO jobgate.deliveries VALUES ('key', 'hash', 999, 1e15)");
  const delivery = { keys: [{ key: "key", identifies: true }], bodyHash: "hash", windowMs: 60_000 };
  const asked = Promise.all([
    store.acceptOnce(webhookCall(), delivery),
    store.claim(claimRequest({ limit: 2, maxAttempts: 1 })),
  ]);
  // Until the batch waits for the other to be decided.
  await sleep(300);
  await winner.commit();

  const [repeated, claimed] = await asked;
  expect(repeated).toEqual({ kind: "duplicate", callId: 999 });
  expect(claimed.map(({ callId }) => callId)).toEqual([2, 3]);
  const rows = await postgres.query<{ state: string; ids: number[] }>(
    url,
    "SELECT state, array_agg(call_id::int ORDER BY call_id) AS ids FROM jobgate.job_calls GROUP BY state ORDER BY state",
  );
  expect(rows).toEqual([
    { state: "dead", ids: [1] },
    { state: "leased", ids: [2, 3] },
    { state: "ready", ids: [4, 5, 6] },
  ]);
  expect(await postgres.query(url, "SELECT sum(n)::int AS counted FROM jobgate.pending")).toEqual([
    { counted: 5 },
  ]);
});
