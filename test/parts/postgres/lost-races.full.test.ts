import { expect, test } from "vitest";
import {
  acceptId,
  claimCalls,
  claimOne,
  NO_BACKOFF,
  paidCall,
  paymentIntent,
  webhookCall,
} from "../../store/store-fixtures.ts";
import { givenReplica } from "./given-replica.ts";

const given = givenReplica();

/** Resolves once a batch waits for another to be decided. */
const isWaiting = () =>
  expect
    .poll(() =>
      given.postgres.query(given.url, "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"),
    )
    .toHaveLength(1);

test("A batch that loses a race leaves nothing behind: its retried claim gets the calls", async () => {
  // The bodies take a while to arrive, so that the race is lost while the claim still looks for more.
  for (let i = 0; i < 6; i += 1) await acceptId(given.store, { body: Buffer.alloc(1_000_000, 7) });
  await given.store.retry(await claimOne(given.store, { limit: 1, maxAttempts: 1 }), {
    delayMs: 0,
    backoff: NO_BACKOFF,
    maxAttempts: 2,
    reason: "busy",
  });

  const winner = await given.postgres.hold(
    given.url,
    "INSERT INTO jobgate.deliveries VALUES ('key', 'hash', 999, 1e15)",
  );
  const delivery = { keys: [{ key: "key", identifies: true }], bodyHash: "hash", windowMs: 60_000 };
  const asked = Promise.all([
    given.store.acceptOnce(webhookCall(), delivery),
    claimCalls(given.store, { limit: 2, maxAttempts: 1 }),
  ]);
  await isWaiting();
  await winner.commit();

  const [repeated, claimed] = await asked;
  expect(repeated).toEqual({ kind: "duplicate", callId: 999 });
  expect(claimed.map(({ callId }) => callId)).toEqual([2, 3]);
  const rows = await given.postgres.query<{ state: string; ids: number[] }>(
    given.url,
    "SELECT state, array_agg(call_id::int ORDER BY call_id) AS ids FROM jobgate.job_calls GROUP BY state ORDER BY state",
  );
  expect(rows).toEqual([
    { state: "dead", ids: [1] },
    { state: "leased", ids: [2, 3] },
    { state: "ready", ids: [4, 5, 6] },
  ]);
  expect(await given.postgres.query(given.url, "SELECT sum(n)::int AS counted FROM jobgate.pending")).toEqual(
    [{ counted: 5 }],
  );
});

test.each(["endAuthorization", "ack"] as const)(
  "A payment that another replica has charged first is not charged by %s, nor reported as charged",
  async (operation) => {
    const intent = paymentIntent(1, { amount: "1001", charge: "used" });
    await given.store.beginPayment(intent, paidCall());
    const lease = await claimOne(given.store);
    const { callId } = lease;
    const winner = await given.postgres.hold(
      given.url,
      `SELECT FROM jobgate.job_calls WHERE call_id = ${callId} FOR UPDATE;
       UPDATE jobgate.payments SET state = 'settling', amount = '5' WHERE call_id = ${callId}`,
    );
    const ended =
      operation === "ack"
        ? given.store.ack(lease, undefined, { units: "7" })
        : given.store.endAuthorization(callId);
    await isWaiting();
    await winner.commit();
    expect(await ended).toEqual(operation === "ack" ? { outcome: "done" } : { kind: "not_open" });
    expect(await given.store.findPayment(intent.key)).toMatchObject({ state: "settling", amount: "5" });
  },
);

test("A row that another replica adds first is the one that a module returns", async () => {
  const winner = await given.postgres.hold(given.url, "INSERT INTO jobgate.secrets VALUES ('name', 'first')");
  const kept = given.store.keepSecret("name", "second");
  await isWaiting();
  await winner.commit();
  expect(await kept).toBe("first");
});

const NONCE = { key: "n", expiresAt: 4_000_000_000 } as const;

test("A nonce that another replica uses up first is not used again", async () => {
  const winner = await given.postgres.hold(
    given.url,
    "INSERT INTO jobgate.one_time_nonces VALUES ('n', 4000000000, 0)",
  );
  const isUsed = given.store.useNonce(NONCE);
  await isWaiting();
  await winner.commit();
  expect(await isUsed).toBe(false);
});

test("A row that another replica changes first is read as it is then", async () => {
  await given.postgres.query(given.url, "INSERT INTO jobgate.one_time_nonces VALUES ('n', 1, 0)");
  const winner = await given.postgres.hold(
    given.url,
    "UPDATE jobgate.one_time_nonces SET expires_at_secs = 4000000000",
  );
  const isUsed = given.store.useNonce(NONCE);
  await isWaiting();
  await winner.commit();
  expect(await isUsed).toBe(false);
});
