import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { UnknownOutcomeError } from "../../../../src/core/errors.ts";
import type { PostgresTimeouts } from "../../../../src/parts/postgres/connection/connect.ts";
import type { Store } from "../../../../src/store/store.ts";
import { startPostgres } from "../../../helpers/postgres.ts";
import { type PostgresProxy, startPostgresProxy } from "../../../helpers/postgres-proxy.ts";
import { startBeforeAll } from "../../../helpers/start-before-all.ts";
import { until } from "../../../helpers/until.ts";
import { acceptId, paidCall, paymentIntent, webhookCall } from "../../../store/store-fixtures.ts";
import { expectTruthful, startAcceptLoad } from "../accept-load.ts";
import { openReplica } from "../open-in-database.ts";

const TIMEOUTS: PostgresTimeouts = {
  connectMs: 4_000,
  lockMs: 4_000,
  statementMs: 4_000,
  answerMs: 5_000,
  outcomeMs: 20_000,
  hangMs: 4_500,
  callerMs: 60_000,
};

let proxy: PostgresProxy;
let store: Store;
let url: string;

/** Connections are cut at a random moment, within this time of the last cut. */
const CUT_WITHIN_MS = 60;

const postgres = startBeforeAll(startPostgres);
beforeEach(async () => {
  proxy = await startPostgresProxy(postgres.port);
  url = await postgres.createDatabase();
  store = await openReplica(proxy.urlOf(url), { timeouts: TIMEOUTS });
});
afterEach(async () => {
  await store.close();
  await proxy.stop();
});

async function writableAgain(): Promise<void> {
  await expect.poll(() => store.status()).toMatchObject({ writable: true, full: false });
}

describe("A connection that is lost at a COMMIT", () => {
  test("Lost before it: the outcome is looked up, and the batch runs once on another connection", async () => {
    const lost = proxy.atNextCommit("cut before");
    await acceptId(store);
    await lost;
    expect((await store.totals()).calls.ready).toBe(1);
    expect(store.status().writable).toBe(true);
  });

  test.each(["cut after", "silent after"] as const)(
    "%s it: what was committed is looked up, and reported as done",
    async (fault) => {
      const lost = proxy.atNextCommit(fault);
      const begun = await store.beginPayment(paymentIntent(1), paidCall());
      await lost;
      expect(begun.kind).toBe("begun");
      expect(await store.findPayment(paymentIntent(1).key)).toMatchObject({ state: "intent" });
      expect(store.status().writable).toBe(true);
      expect((await store.beginPayment(paymentIntent(1), paidCall())).kind).toBe("payment_known");
    },
  );

  test("Lost after it, without a server to query: the outcome is unknown, never not done", async () => {
    const lost = proxy.atNextCommit("silent after");
    const accepted = store.accept(webhookCall());
    await lost;
    proxy.redirect(1);
    await expect(accepted).rejects.toThrow(UnknownOutcomeError);
    expect(store.status().writable).toBe(false);
    proxy.redirect(postgres.port);
    await writableAgain();
    expect((await store.totals()).calls.ready).toBe(1);
  });

  test("Lost while it waits for a standby: it is reported as done only once a standby has it", async () => {
    const waiting = async (condition = "true") =>
      (
        await postgres.query<{ pid: number }>(
          url,
          `SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND ${condition}`,
        )
      ).map(({ pid }) => pid);
    const setStandbys = async (names: string) => {
      await postgres.query(url, `ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
      await postgres.query(url, "SELECT pg_reload_conf()");
    };
    const patient = await openReplica(url, {
      timeouts: { ...TIMEOUTS, answerMs: 60_000, outcomeMs: 120_000 },
    });
    const others: Promise<unknown>[] = [];
    try {
      await setStandbys("missing");
      await expect
        .poll(() => {
          others.push(postgres.query(url, "SELECT pg_logical_emit_message(true, '', '')"));
          return waiting();
        })
        .not.toEqual([]);
      let isTold = false;
      const accepted = patient.accept(webhookCall()).finally(() => {
        isTold = true;
      });
      // Checks of the heartbeat wait as well: only the accept has written a call.
      const accepting = () =>
        waiting(`pid IN (SELECT pid FROM pg_locks
          WHERE relation = 'jobgate.job_calls'::regclass AND mode = 'RowExclusiveLock')`);
      await expect.poll(accepting).toHaveLength(1);
      const before = await waiting();
      await postgres.query(url, `SELECT pg_terminate_backend(${(await accepting())[0]})`);
      // The lookup, beside what the replicas do by themselves.
      await expect.poll(() => waiting()).toContainEqual(expect.not.toBeOneOf(before));
      expect(isTold).toBe(false);
      await setStandbys("");
      expect((await accepted).kind).toBe("accepted");
    } finally {
      await setStandbys("");
      await Promise.all(others);
      await patient.close();
    }
    expect((await store.totals()).calls.ready).toBe(1);
  });

  test("While commits hang, checks do not leave one connection after the other behind at the server", async () => {
    const pidsOf = async (condition: string) =>
      (
        await postgres.query<{ pid: number }>(
          url,
          `SELECT pid FROM pg_stat_activity WHERE application_name = 'jobgate' AND datname = current_database()
              AND ${condition}`,
        )
      ).map(({ pid }) => pid);
    const setStandbys = async (names: string) => {
      await postgres.query(url, `ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
      await postgres.query(url, "SELECT pg_reload_conf()");
    };
    const impatient = await openReplica(url, {
      timeouts: { ...TIMEOUTS, lockMs: 100, answerMs: 500, outcomeMs: 200, hangMs: 300 },
    });
    try {
      await setStandbys("missing");
      await expect.poll(() => impatient.status().writable).toBe(false);
      // Each lookup of an outcome opens a connection.
      const seen = new Set<number>();
      const opened = async () => {
        for (const pid of await pidsOf("true")) seen.add(pid);
        return seen.size;
      };
      await expect.poll(opened, { interval: 20 }).toBeGreaterThan(60);
      // Those of both stores: a check of the heartbeat, a probe, and what looks up its outcome.
      expect((await pidsOf("wait_event = 'SyncRep'")).length).toBeLessThanOrEqual(6);
      expect(impatient.status().writable).toBe(false);
      await setStandbys("");
      await expect.poll(() => impatient.status().writable).toBe(true);
      await acceptId(impatient);
    } finally {
      await setStandbys("");
      await impatient.close();
    }
  });

  test("Cut at thirty moments under load, every answer is true", async () => {
    const load = startAcceptLoad(store);
    for (let cuts = 0; cuts < 30 || load.accepted.size <= 100; cuts += 1) {
      await sleep(Math.random() * CUT_WITHIN_MS);
      if (cuts % 3 === 0) proxy.cut();
      else await proxy.atNextCommit(cuts % 3 === 1 ? "cut after" : "cut before");
    }
    await load.end();
    await writableAgain();
    await expectTruthful(store, load);
  });
});

describe("A Postgres that goes away", () => {
  test.each(["SIGINT", "SIGKILL"] as const)(
    "Ended by %s three times under load, it has what was accepted and nothing that was refused",
    async (signal) => {
      const patient = await openReplica(url, { timeouts: { ...TIMEOUTS, outcomeMs: 120_000 } });
      try {
        const load = startAcceptLoad(patient);
        // A quick restart may refuse nothing, and a slow machine accept little: continues until there was enough of both.
        for (let round = 0; round < 3 || load.refused.size === 0 || load.accepted.size <= 100; round += 1) {
          const enough = load.accepted.size + 1 + Math.floor(Math.random() * 100);
          await until(() => load.accepted.size >= enough);
          await postgres.kill(signal);
          await postgres.start();
          await expect.poll(() => patient.status().writable).toBe(true);
        }
        await load.end();
        await expectTruthful(patient, load);
        const [counted] = await postgres.query<{ counted: string; kept: string }>(
          url,
          `SELECT (SELECT sum(n) FROM jobgate.pending) AS counted,
                  (SELECT count(*) FROM jobgate.job_calls WHERE state <> 'dead') AS kept`,
        );
        expect(counted?.counted).toBe(counted?.kept);
      } finally {
        await patient.close();
      }
    },
  );

  test("Without an answer, everything fails, the status says so, and it recovers by itself", async () => {
    proxy.setStalled(true);
    const outcomes = await Promise.allSettled([
      store.accept(webhookCall()),
      store.findCall(1),
      store.nextDueMs(),
    ]);
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ reason: { code: "store_unavailable" } });
    }
    expect(store.status()).toMatchObject({ writable: false, reason: expect.stringMatching(/\S/) });
    proxy.setStalled(false);
    await writableAgain();
    await acceptId(store);
    expect((await store.totals()).calls.ready).toBe(1);
  });

  test("A store is closed while Postgres cannot be reached", async () => {
    await acceptId(store);
    await store.findCall(1);
    proxy.setStalled(true);
    // It waits for an answer that someone may still want, and for goodbyes, but not for ever.
    await store.close();
  });

  test("A lost server is noticed without traffic", async () => {
    proxy.redirect(1);
    proxy.cut();
    await expect.poll(() => store.status().writable).toBe(false);
    proxy.redirect(postgres.port);
    await writableAgain();
  });

  test("A read-only server, as after a fail-over, gets no writes, and is left for another", async () => {
    const name = new URL(url).pathname.slice(1);
    await postgres.query(url, `ALTER DATABASE ${name} SET default_transaction_read_only = on`);
    proxy.cut();
    await expect.poll(() => store.status().reason).toMatch(/only be read/);
    await expect(store.accept(webhookCall())).rejects.toMatchObject({ code: "store_unavailable" });
    await postgres.query(
      url,
      `BEGIN READ WRITE; ALTER DATABASE ${name} RESET default_transaction_read_only; COMMIT`,
    );
    await writableAgain();
    await acceptId(store);
  });
});

test("An operation that the database rejects is refused alone, not with the operations that share its batch", async () => {
  const bad = paymentIntent(1, { amount: null as unknown as string });
  const [before, refused, after] = await Promise.allSettled([
    store.accept(webhookCall()),
    store.beginPayment(bad, paidCall()),
    store.accept(webhookCall()),
  ]);
  expect([before, after]).toMatchObject([{ value: { kind: "accepted" } }, { value: { kind: "accepted" } }]);
  expect(refused).toMatchObject({ reason: { code: "store_unavailable" } });
  expect(store.status().writable).toBe(true);
  expect((await store.totals()).calls).toEqual({ held: 0, ready: 2, leased: 0, dead: 0 });
});
