import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DEFAULT_TIMEOUTS } from "../../../src/parts/postgres/connection/connect.ts";
import type { ClaimedCall } from "../../../src/store/contract/work-queue.ts";
import type { Store } from "../../../src/store/store.ts";
import { startPostgres } from "../../helpers/postgres.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import {
  acceptId,
  claimCalls,
  claimOne,
  keptResult,
  NO_BACKOFF,
  oneTimeNonce,
  paidCall,
  paidId,
  paymentIntent,
  webhookCall,
} from "../../store/store-fixtures.ts";
import { openReplica } from "./open-in-database.ts";

/** Time between two of forty starts. */
const BETWEEN_STARTS_MS = 0.25;
/** The ID of no JobCall. */
const NO_CALL = 0;

let url: string;
let one: Store;
let other: Store;

const postgres = startBeforeAll(startPostgres);
beforeEach(async () => {
  url = await postgres.createDatabase();
  [one, other] = await Promise.all([openReplica(url), openReplica(url)]);
});
afterEach(async () => {
  await Promise.all([one.close(), other.close()]);
});

/** A nonce that has not expired by the database's clock. */
const nonceNow = () => oneTimeNonce("n", Math.floor(Date.now() / 1000) + 600);
const kindsOf = (outcomes: readonly { kind: string }[]) => {
  const counts: Record<string, number> = {};
  for (const { kind } of outcomes) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
};
/** Runs something at both replicas, forty times in all, so that batches of both are under way at once. */
const atBoth = <T>(run: (store: Store, number: number) => Promise<T>): Promise<T[]> =>
  Promise.all(
    Array.from({ length: 40 }, async (_, i) => {
      await sleep(i * BETWEEN_STARTS_MS);
      return run(i % 2 ? one : other, i + 1);
    }),
  );

/** Waits until a replica hears the others, and announces to them. What was announced before is lost. */
async function hearsOthers(store: Store): Promise<void> {
  let hears = false;
  const end = store.sharedLeases?.onEndedElsewhere(() => {
    hears = true;
  });
  const message = JSON.stringify({ from: "a test", hasWork: false, endedCallIds: [NO_CALL] });
  await until(async () => {
    await postgres.query(url, `SELECT pg_notify('jobgate_work', '${message}')`);
    return hears;
  });
  end?.();
}

describe("Races between two replicas", () => {
  test("One payment is begun once, and both replicas find it", async () => {
    const outcomes = await atBoth((store) => store.beginPayment(paymentIntent(1), paidCall()));
    expect(kindsOf(outcomes)).toEqual({ begun: 1, payment_known: 39 });
    expect((await one.totals()).calls.held).toBe(1);
    expect(await other.findPayment(paymentIntent(1).key)).toEqual(
      await one.findPaymentByFingerprint(paymentIntent(1).fingerprint),
    );
  });

  test("Each old result is forgotten once and counted once, whoever prunes", async () => {
    for (let number = 1; number <= 5; number += 1) await paidId(one, number);
    for (const call of await claimCalls(one)) await one.ack(call);
    const pruned = await atBoth((store) => store.prune({ kind: "results", ageMs: -60_000, after: 0 }));
    expect(pruned.reduce((sum, { removed }) => sum + removed, 0)).toBe(5);
    expect((await one.totals()).paidCalls).toMatchObject({ done: 5 });
  });

  test("Of different payments under one name, one is begun, and the others get it", async () => {
    const outcomes = await atBoth((store, number) =>
      store.beginPayment(paymentIntent(number, { purchaseName: "id" }), paidCall()),
    );
    expect(kindsOf(outcomes)).toEqual({ begun: 1, payment_known: 39 });
    const held = await other.findPaymentByPurchaseName({ payer: paymentIntent(1).key.payer, name: "id" });
    for (const outcome of outcomes)
      if (outcome.kind === "payment_known") expect(outcome.record).toEqual(held);
  });

  test("While failed payments turn out paid, the next under their names are begun only if they were first", async () => {
    const identified = (number: number, purchaseName: number) =>
      paymentIntent(number, { purchaseName: `id ${purchaseName}` });
    const numbers = Array.from({ length: 20 }, (_, i) => i + 1);
    for (const number of numbers) {
      await one.beginPayment(identified(number, number), paidCall());
      await one.failPayment(paymentIntent(number).key, "{}", "nothing moved");
    }
    await Promise.all(
      numbers.map(async (number) => {
        const next = identified(number + 100, number);
        const [settled, begun] = await Promise.all([
          one.settlePayment(paymentIntent(number).key, "{}"),
          other.beginPayment(next, paidCall()),
        ]);
        expect(settled).toMatchObject({ kind: "settled", changed: true });
        const holder = begun.kind === "begun" ? next : identified(number, number);
        const { payer } = next.key;
        expect(await one.findPaymentByPurchaseName({ payer, name: `id ${number}` })).toMatchObject(holder);
      }),
    );
  });

  test("A one-time nonce is used up once, by one of many payments", async () => {
    const outcomes = await atBoth((store, number) =>
      store.beginPayment(paymentIntent(number, { oneTimeNonces: [nonceNow()] }), paidCall()),
    );
    expect(kindsOf(outcomes)).toEqual({ begun: 1, nonce_used: 39 });
    expect(await one.isNonceUsed(nonceNow())).toBe(true);
    expect(await other.isNonceUsed(nonceNow())).toBe(true);
    expect((await one.totals()).payments.intent).toBe(1);
  });

  test("A delivery is accepted once, and its repeats get its call", async () => {
    const delivery = { keys: [{ key: "id", identifies: true }], bodyHash: "hash", windowMs: 60_000 };
    const outcomes = await atBoth((store) => store.acceptOnce(webhookCall(), delivery));
    expect(kindsOf(outcomes)).toEqual({ accepted: 1, duplicate: 39 });
    expect(new Set(outcomes.map((outcome) => "callId" in outcome && outcome.callId)).size).toBe(1);
  });

  test("A payment that one settles is settled in the end, whether or not the other fails it first", async () => {
    for (let number = 1; number <= 20; number += 1) {
      await one.beginPayment(paymentIntent(number), paidCall());
      const { key } = paymentIntent(number);
      const [settled, failed] = await Promise.all([
        one.settlePayment(key, "{}"),
        other.failPayment(key, "{}", "nothing moved"),
      ]);
      expect(settled).toMatchObject({ kind: "settled", changed: true });
      expect(["failed", "not_open"]).toContain(failed.kind);
    }
    const { payments, calls } = await one.totals();
    expect(payments).toMatchObject({ settled: 20, failed: 0 });
    expect(calls).toMatchObject({ held: 0, ready: 20 });
  });

  test("A lease is ended once, in one way", async () => {
    for (let i = 0; i < 20; i += 1) {
      await paidId(one, i + 1);
      const lease = await claimOne(one);
      const ended = await Promise.all([one.ack(lease), other.fail(lease, "no good")]);
      expect(ended.filter(({ outcome }) => outcome === "done")).toHaveLength(1);
    }
    const { done, dead } = (await one.totals()).paidCalls;
    expect(done + dead).toBe(20);
  });

  test("No call is claimed twice, and each is claimed, with and without filters", async () => {
    const jobs = [1n, 2n, 3n];
    const ids = await Promise.all(
      Array.from({ length: 600 }, (_, i) => acceptId(i % 2 ? one : other, { jobId: jobs[i % 3] ?? 1n })),
    );
    const claimed: ClaimedCall[] = [];
    async function claimSome(store: Store, jobIds: readonly bigint[]): Promise<number> {
      const calls = await claimCalls(store, { limit: 7, jobIds });
      claimed.push(...calls);
      return calls.length;
    }
    // A claim may find nothing while others have locked calls that they do not take.
    const claimAll = (store: Store, jobIds: readonly bigint[]) =>
      until(async () => {
        while ((await claimSome(store, jobIds)) > 0);
        return claimed.length >= ids.length;
      });
    await Promise.all([
      claimAll(one, []),
      claimAll(other, []),
      claimAll(one, [1n, 2n]),
      claimAll(other, jobs),
    ]);
    expect(await claimSome(one, [])).toBe(0);
    expect(claimed.map(({ callId }) => callId).sort((a, b) => a - b)).toEqual(ids.sort((a, b) => a - b));
  });
});

describe("Work that one replica began", () => {
  test("Another finishes: it accepts an Ack for the lease, and returns the call's state and result", async () => {
    const callId = await paidId(one, 1);
    expect(await other.findCall(callId)).toMatchObject({ state: "queued" });
    const lease = await claimOne(one);
    expect(await other.findCall(callId)).toMatchObject({ state: "running", attempt: 1 });
    await other.extend(lease, 60_000, { percent: 50, text: "half" });
    expect((await one.findCall(callId))?.progress).toEqual({ percent: 50, text: "half" });
    expect(await other.ack(lease, { body: Buffer.from("result"), contentType: "text/plain" })).toEqual({
      outcome: "done",
    });
    expect(await one.ack(lease)).toEqual({ outcome: "not_found" });
    expect(Buffer.from(keptResult(await one.findResult(callId))?.body ?? []).toString()).toBe("result");
  });

  test("Another answers a resend of", async () => {
    const callId = await paidId(one, 1);
    expect(await other.settlePayment(paymentIntent(1).key, "again")).toMatchObject({
      kind: "settled",
      callId,
      changed: false,
    });
    expect(await other.beginPayment(paymentIntent(1), paidCall())).toMatchObject({
      kind: "payment_known",
      record: { callId, state: "settled" },
    });
  });

  test("Any text is stored, and does not affect other writes in its batch", async () => {
    const [bad, good] = [await acceptId(one), await acceptId(one)];
    const [first, second] = await claimCalls(one);
    if (first === undefined || second === undefined) throw new Error("expected two calls");
    const outcomes = await Promise.all([
      one.fail(first, "no\0good \ud800"),
      one.extend(second, 60_000, { percent: 1, text: "a\0b" }),
      one.ack({ callId: second.callId, leaseToken: "\0" }),
    ]);
    expect(outcomes).toMatchObject([{ outcome: "done" }, { outcome: "done" }, { outcome: "lease_lost" }]);
    expect((await other.findDeadLetter(bad))?.reason).toBe("no\ufffdgood \ufffd");
    expect(await other.ack(second)).toEqual({ outcome: "done" });
    expect(good).toBe(second.callId);
  });
});

describe("Leases that one replica gave out", () => {
  test("It reads their states, in the order of its question, whichever replica changed them", async () => {
    for (let i = 0; i < 6; i += 1) await acceptId(one);
    type Six = [ClaimedCall, ClaimedCall, ClaimedCall, ClaimedCall, ClaimedCall, ClaimedCall];
    const [kept, renewed, acked, failed, released, ranOut] = (await claimCalls(one)) as Six;
    const { leaseExpiresAt } = await other.extend(renewed, 600_000);
    await Promise.all([other.ack(acked), other.fail(failed, "no good")]);
    await other.release(released, { excused: false, maxAttempts: 3, backoff: NO_BACKOFF });
    await other.extend(ranOut, 1);
    await until(async () => (await one.sharedLeases?.look([ranOut]))?.[0]?.kind === "lease_lost");
    const asked = [renewed, kept, released, ranOut, failed, acked, { ...kept, leaseToken: "foreign" }];
    const at = expect.any(Number);
    expect(await one.sharedLeases?.look(asked)).toEqual([
      { kind: "held", at, leaseExpiresAt },
      { kind: "held", at, leaseExpiresAt: kept.leaseExpiresAt },
      { kind: "lease_lost", at },
      { kind: "lease_lost", at },
      { kind: "not_found" },
      { kind: "not_found" },
      { kind: "lease_lost", at },
    ]);
  });

  test("It is notified of the calls that another replica ended, and of no others; an unknown notification means work", async () => {
    const told: number[] = [];
    let heardOfWork = 0;
    await hearsOthers(one);
    one.sharedLeases?.onEndedElsewhere(
      (callIds) => void told.push(...callIds.filter((id) => id !== NO_CALL)),
    );
    for (let i = 0; i < 3; i += 1) await acceptId(one);
    const [foreign, own, lost] = (await claimCalls(one)) as [ClaimedCall, ClaimedCall, ClaimedCall];
    one.onWork(() => {
      heardOfWork += 1;
    });
    await other.ack({ ...lost, leaseToken: "foreign", fromElsewhere: true });
    await other.ack(own);
    await other.ack({ ...foreign, fromElsewhere: true });
    await expect.poll(() => told).toEqual([foreign.callId]);
    expect(heardOfWork).toBe(0);
    for (const payload of ["", "null", "7", "{}", "from another version"]) {
      await postgres.query(url, `SELECT pg_notify('jobgate_work', '${payload}')`);
    }
    await expect.poll(() => heardOfWork).toBe(5);
  });
});

describe("Work that one replica accepts", () => {
  test("It reaches a listener of another without a poll", async () => {
    let heard: ((calls: ClaimedCall[]) => void) | undefined;
    const end = other.onWork(() => {
      void claimCalls(other).then((calls) => {
        if (calls.length > 0) heard?.(calls);
      });
    });
    await Promise.all([hearsOthers(one), hearsOthers(other)]);
    for (let i = 0; i < 200; i += 1) {
      const arrived = new Promise<ClaimedCall[]>((resolve) => {
        heard = resolve;
      });
      await one.accept(webhookCall());
      const [call] = await arrived;
      if (call !== undefined) expect(await other.ack(call)).toEqual({ outcome: "done" });
    }
    end();
  });

  test("It counts towards max_pending at all replicas, which recover when another empties the queue", async () => {
    const full = await openReplica(url, { maxPending: 10 });
    try {
      for (let i = 0; i < 10; i += 1) await acceptId(one);
      await expect.poll(() => full.status().full).toBe(true);
      expect(await full.accept(webhookCall())).toEqual({ kind: "queue_full" });
      expect(await full.beginPayment(paymentIntent(1), paidCall())).toEqual({ kind: "queue_full" });
      await other.ack(await claimOne(other, { limit: 1 }));
      expect((await full.accept(webhookCall())).kind).toBe("accepted");
      await other.ack(await claimOne(other, { limit: 1 }));
      await expect.poll(() => full.status().full).toBe(false);
    } finally {
      await full.close();
    }
  });
});

describe("Tables", () => {
  test("Five replicas that start together on an empty database create them once", async () => {
    const empty = await postgres.createDatabase();
    const replicas = await Promise.all(Array.from({ length: 5 }, () => openReplica(empty)));
    try {
      await Promise.all(replicas.map((replica) => acceptId(replica)));
      expect((await replicas[0]?.totals())?.calls.ready).toBe(5);
    } finally {
      await Promise.all(replicas.map((replica) => replica.close()));
    }
  });

  test("A replica waits for another's migration, longer than for any other answer", async () => {
    const empty = await postgres.createDatabase();
    // Anyone who holds this lock is one that migrates.
    const migrating = await postgres.hold(empty, "SELECT pg_advisory_xact_lock(x'6a6f6267'::int)");
    const timeouts = { ...DEFAULT_TIMEOUTS, lockMs: 200, statementMs: 500, answerMs: 700 };
    const opening = openReplica(empty, { timeouts });
    let ended: string | undefined;
    void opening.then(
      () => (ended = "opened"),
      (error: Error) => (ended = error.message),
    );
    const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'
      AND clock_timestamp() - query_start > interval '1 second'`;
    const first = await until(
      async () => ended ?? ((await postgres.query(empty, waits)).length > 0 && "waits"),
    );
    await migrating.commit();
    expect(first).toBe("waits");
    const replica = await opening;
    await acceptId(replica);
    await replica.close();
  });

  test("A newer jobgate's database, a server without durable commits, and an unreachable one are refused", async () => {
    await postgres.query(url, "UPDATE jobgate.schema_version SET version = 199, usable_from = 199");
    await expect(openReplica(url)).rejects.toThrow(
      /a newer jobgate wrote this store \(schema version 199, .*\): start that one$/,
    );
    const hasty = await postgres.createDatabase();
    const name = new URL(hasty).pathname.slice(1);
    await postgres.query(hasty, `ALTER DATABASE ${name} SET synchronous_commit = off`);
    await expect(openReplica(hasty)).rejects.toThrow(/synchronous_commit/);
    const setFsync = async (change: string, expected: string) => {
      for (const sql of [`ALTER SYSTEM ${change}`, "SELECT pg_reload_conf()"]) await postgres.query(url, sql);
      const shown = () => postgres.query(url, "SELECT current_setting('fsync') AS fsync");
      await expect.poll(shown).toEqual([{ fsync: expected }]);
    };
    await setFsync("SET fsync = off", "off");
    await expect(openReplica(await postgres.createDatabase())).rejects.toThrow(/fsync/);
    await setFsync("RESET fsync", "on");
    const unreachable = openReplica("postgres://postgres@127.0.0.1:1/none", { connectTimeoutMs: 0 });
    await expect(unreachable).rejects.toThrow(/ECONNREFUSED/);
  });
});

test("Of ceilings that one payer opens at two replicas at once, those begin that the funds cover together", async () => {
  const limits = { maxUndecided: 100, maxOpenPerPayer: 100, funds: "5500" };
  const begun = await Promise.all(
    Array.from({ length: 40 }, (_, index) => {
      const intent = paymentIntent(index + 1, { amount: "1000", charge: "used" });
      return (index % 2 === 0 ? one : other).beginPayment(intent, paidCall(), limits);
    }),
  );
  const kinds = begun.map(({ kind }) => kind).toSorted();
  expect(kinds).toEqual([...Array(5).fill("begun"), ...Array(35).fill("insufficient_funds")]);
  expect((await one.totals()).deferred).toMatchObject({ authorized: 5 });
});
