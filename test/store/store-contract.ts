import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Clock } from "../../src/clock.ts";
import type { PaymentIntent } from "../../src/payment.ts";
import type { ClaimedCall, Store } from "../../src/store/store.ts";
import {
  acceptId,
  callerNonce,
  claimOne,
  claimRequest,
  LEASE_MS,
  paidCall,
  paidId,
  paymentIntent,
  START_MS,
  webhookCall,
} from "./store-fixtures.ts";

/** A store under test, with the means to see what survives. */
export interface StoreUnderTest {
  readonly store: Store;
  /** Closes the store and opens what it kept. */
  reopen(): Promise<Store>;
  /** Closes the store and removes what it kept. */
  dispose(): Promise<void>;
}

/** Opens an empty store whose encoder gives the JobCall's body. */
export type OpenStoreUnderTest = (options: { maxPending: number; clock: Clock }) => Promise<StoreUnderTest>;

const MAX_PENDING = 40;
const NO_BACKOFF = { baseMs: 0, maxMs: 0 };

/** Every promise of store.ts, for whatever keeps it. */
export function describeStoreContract(name: string, open: OpenStoreUnderTest): void {
  describe(name, () => {
    let now: number;
    let underTest: StoreUnderTest;
    let store: Store;

    beforeEach(async () => {
      now = START_MS;
      underTest = await open({ maxPending: MAX_PENDING, clock: () => now });
      store = underTest.store;
    });
    afterEach(() => underTest.dispose());

    const idsOf = (calls: readonly { callId: number }[]) => calls.map(({ callId }) => callId);
    const retryNow = (reason = "again") => ({
      delayMs: 0,
      backoff: NO_BACKOFF,
      maxAttempts: 3,
      reason,
    });
    /** Makes dead letters of everything that is due. */
    async function failAll(reason = "no good"): Promise<void> {
      for (const call of await store.claim(claimRequest())) await store.fail(call, reason);
    }
    async function expectBalance(): Promise<void> {
      const { payments, paidCalls } = await store.totals();
      const { ready, leased, done, dead } = paidCalls;
      expect(ready + leased + done + dead).toBe(payments.settled);
    }

    describe("intake", () => {
      test("An accepted call is claimed with its bytes, its first attempt and its times", async () => {
        const callId = await acceptId(store, { body: Buffer.from([0, 255, 1]) });
        now += 5;
        const claimed = await claimOne(store);
        expect({ ...claimed, encoded: [...claimed.encoded] }).toEqual({
          callId,
          leaseToken: expect.stringMatching(/^[A-Za-z0-9_-]{22}$/),
          encoded: [0, 255, 1],
          attempt: 1,
          enqueuedAt: START_MS,
          leaseExpiresAt: START_MS + 5 + LEASE_MS,
        });
      });

      test("An empty body is kept as an empty body", async () => {
        await acceptId(store, { body: new Uint8Array() });
        expect((await claimOne(store)).encoded).toHaveLength(0);
      });

      test("Many bodies accepted at once each stay with their own call", async () => {
        const ids = await Promise.all(
          Array.from({ length: MAX_PENDING }, (_, i) => acceptId(store, { body: Buffer.from(`body ${i}`) })),
        );
        const claimed = await store.claim(claimRequest({ limit: MAX_PENDING }));
        expect(claimed.map(({ encoded }) => Buffer.from(encoded).toString())).toEqual(
          ids.map((_, i) => `body ${i}`),
        );
        expect(idsOf(claimed)).toEqual(ids);
      });

      test("Call ids are positive, rise, and are never given twice, not even after the last call is gone", async () => {
        const first = await acceptId(store);
        expect(first).toBeGreaterThan(0);
        await store.ack(await claimOne(store));
        store = await underTest.reopen();
        expect(await acceptId(store)).toBeGreaterThan(first);
      });

      test("Above max_pending work is refused until something is finished", async () => {
        for (let i = 0; i < MAX_PENDING; i += 1) await acceptId(store);
        expect(store.status()).toEqual({ writable: true, full: true });
        expect(await store.accept(webhookCall())).toEqual({ kind: "queue_full" });
        expect(await store.beginPayment(paymentIntent(1), paidCall())).toEqual({ kind: "queue_full" });
        expect(await store.findPayment(paymentIntent(1).key)).toBeUndefined();

        await store.ack(await claimOne(store, { limit: 1 }));
        expect(store.status()).toEqual({ writable: true, full: false });
        await acceptId(store);
      });

      test("Held, leased and delayed calls count towards max_pending, dead letters and failed payments do not; also after a restart", async () => {
        await store.beginPayment(paymentIntent(1), paidCall());
        for (let i = 1; i < MAX_PENDING; i += 1) await acceptId(store);
        const [dead, delayed] = (await store.claim(claimRequest({ limit: 3 }))) as [ClaimedCall, ClaimedCall];
        await store.retry(delayed, { ...retryNow(), delayMs: 1000 });
        expect(store.status().full).toBe(true);
        store = await underTest.reopen();
        expect(store.status().full).toBe(true);
        await store.fail(dead, "no good");
        expect(store.status().full).toBe(false);
        await store.retryDeadLetter(dead.callId);
        expect(store.status().full).toBe(true);
        expect(await store.retryDeadLetter(dead.callId)).toBe(false);
        await store.failPayment(paymentIntent(1).key, "{}", "why");
        expect(store.status().full).toBe(false);
        store = await underTest.reopen();
        await acceptId(store);
        expect(store.status().full).toBe(true);
      });

      test("At most max_pending of many accepts at once get in", async () => {
        const outcomes = await Promise.all(
          Array.from({ length: MAX_PENDING + 25 }, () => store.accept(webhookCall())),
        );
        expect(outcomes.filter(({ kind }) => kind === "accepted")).toHaveLength(MAX_PENDING);
      });
    });

    describe("payments", () => {
      test("A begun payment is found with everything that was written, by key and by fingerprint", async () => {
        const intent = paymentIntent(1, { callerNonce: callerNonce("n") });
        const begun = await store.beginPayment(intent, paidCall());
        const record = {
          ...intent,
          state: "intent",
          callId: begun.kind === "begun" ? begun.callId : 0,
          createdAt: START_MS,
          updatedAt: START_MS,
        };
        expect(await store.findPayment(intent.key)).toEqual(record);
        expect(await store.findPaymentByFingerprint(intent.fingerprint)).toEqual(record);
        store = await underTest.reopen();
        expect(await store.findPayment(intent.key)).toEqual(record);
        expect(await store.findPayment(paymentIntent(2).key)).toBeUndefined();
        expect(await store.findPaymentByFingerprint("another")).toBeUndefined();
      });

      test("An intent without the optional parts comes back without them", async () => {
        const { fromBlock: _, ...intent } = paymentIntent(1);
        await store.beginPayment(intent, paidCall());
        const record = await store.findPayment(intent.key);
        expect(Object.keys(record ?? {})).not.toEqual(
          expect.arrayContaining([expect.stringMatching(/fromBlock|callerNonce|settlement|reason/)]),
        );
        expect(record).toMatchObject(intent);
      });

      test("Of 50 concurrent begins of one payment exactly one begins, and makes one held call", async () => {
        const outcomes = await Promise.all(
          Array.from({ length: 50 }, () => store.beginPayment(paymentIntent(1), paidCall())),
        );
        const begun = outcomes.filter(({ kind }) => kind === "begun");
        const known = outcomes.filter(({ kind }) => kind === "payment_known");
        expect([begun.length, known.length]).toEqual([1, 49]);
        expect(known[0]).toMatchObject({ record: { callId: begun[0]?.kind === "begun" && begun[0].callId } });
        expect((await store.totals()).calls.held).toBe(1);
      });

      test("The same payment in another letter case, or with another key, is the same payment", async () => {
        const intent = paymentIntent(0xabc);
        await store.beginPayment(intent, paidCall());
        const { key } = intent;
        const upperCase = {
          ...key,
          payer: key.payer.toUpperCase(),
          asset: key.asset.toUpperCase(),
          nonce: key.nonce.toUpperCase(),
        };
        const other = paymentIntent(2, { key: upperCase });
        expect((await store.beginPayment(other, paidCall())).kind).toBe("payment_known");
        expect((await store.findPayment(upperCase))?.fingerprint).toBe(intent.fingerprint);
        const otherKey = paymentIntent(3, { fingerprint: intent.fingerprint });
        expect((await store.beginPayment(otherKey, paidCall())).kind).toBe("payment_known");
      });

      test("A held call is not claimed before its payment is settled", async () => {
        await store.beginPayment(paymentIntent(1), paidCall());
        expect(await store.claim(claimRequest())).toEqual([]);
        now += 1000;
        await store.settlePayment(paymentIntent(1).key, "{}");
        expect(await claimOne(store)).toMatchObject({ attempt: 1, enqueuedAt: START_MS + 1000 });
      });

      test("Settling twice gives one call and keeps the first settlement", async () => {
        await store.beginPayment(paymentIntent(1), paidCall());
        const { key } = paymentIntent(1);
        const outcomes = await Promise.all([
          store.settlePayment(key, "first"),
          store.settlePayment(key, "second"),
        ]);
        expect(outcomes[0]).toEqual(outcomes[1]);
        await store.ack(await claimOne(store));
        expect((await store.settlePayment(key, "third")).kind).toBe("settled");
        expect(await store.claim(claimRequest())).toEqual([]);
        expect(await store.findPayment(key)).toMatchObject({ state: "settled", settlement: "first" });
      });

      test("A payment that nobody began cannot be settled or failed", async () => {
        const { key } = paymentIntent(1);
        expect(await store.settlePayment(key, "{}")).toEqual({ kind: "not_open" });
        expect(await store.failPayment(key, "{}", "why")).toEqual({ kind: "not_open" });
      });

      test("A failed payment drops its held call and stays failed", async () => {
        const { key } = paymentIntent(1);
        await store.beginPayment(paymentIntent(1), paidCall());
        expect(await store.failPayment(key, '{"success":false}', "reverted")).toEqual({ kind: "failed" });
        expect(await store.findPayment(key)).toMatchObject({
          state: "failed",
          settlement: '{"success":false}',
          reason: "reverted",
        });
        expect(await store.settlePayment(key, "{}")).toEqual({ kind: "not_open" });
        expect(await store.failPayment(key, "{}", "again")).toEqual({ kind: "not_open" });
        expect((await store.beginPayment(paymentIntent(1), paidCall())).kind).toBe("payment_known");
        expect((await store.totals()).calls).toEqual({ held: 0, ready: 0, leased: 0, dead: 0 });
      });

      test("A settled payment cannot fail and keeps its call", async () => {
        const callId = await paidId(store, 1);
        expect(await store.failPayment(paymentIntent(1).key, "{}", "why")).toEqual({ kind: "not_open" });
        expect((await claimOne(store)).callId).toBe(callId);
      });

      test("An unresolved payment keeps its call held, and can be settled or failed later", async () => {
        for (const number of [1, 2, 3]) {
          await store.beginPayment(paymentIntent(number), paidCall());
          await store.leavePaymentUnresolved(paymentIntent(number).key, "no answer");
        }
        expect(await store.findPayment(paymentIntent(1).key)).toMatchObject({
          state: "unresolved",
          reason: "no answer",
        });
        expect(await store.claim(claimRequest())).toEqual([]);
        expect((await store.settlePayment(paymentIntent(1).key, "{}")).kind).toBe("settled");
        expect((await store.failPayment(paymentIntent(2).key, "{}", "why")).kind).toBe("failed");
        expect((await store.totals()).payments).toEqual({ intent: 0, settled: 1, failed: 1, unresolved: 1 });
        expect((await store.totals()).calls).toMatchObject({ held: 1, ready: 1 });
      });

      test("A decided payment cannot become unresolved", async () => {
        await paidId(store, 1);
        await store.leavePaymentUnresolved(paymentIntent(1).key, "late");
        expect((await store.findPayment(paymentIntent(1).key))?.state).toBe("settled");
      });

      test("Payments are listed newest first, by state, and in pages", async () => {
        const ids = [await paidId(store, 1), await paidId(store, 2), await paidId(store, 3)];
        await store.beginPayment(paymentIntent(4), paidCall());
        const settled = await store.listPayments({ state: "settled", limit: 2 });
        expect(idsOf(settled)).toEqual([ids[2], ids[1]]);
        const before = settled[1]?.callId ?? 0;
        expect(idsOf(await store.listPayments({ state: "settled", limit: 2, before }))).toEqual([ids[0]]);
        expect(await store.listPayments({ limit: 10 })).toHaveLength(4);
        expect((await store.listPayments({ limit: 1 }))[0]?.state).toBe("intent");
      });
    });

    describe("caller nonces", () => {
      const begin = (number: number, nonce: ReturnType<typeof callerNonce>) =>
        store.beginPayment(paymentIntent(number, { callerNonce: nonce }), paidCall());

      test("Of 50 payments at once with one nonce exactly one begins; letter case of the caller does not matter", async () => {
        const upper = callerNonce("n", { caller: callerNonce("n").caller.toUpperCase() });
        const outcomes = await Promise.all(
          Array.from({ length: 50 }, (_, i) => begin(i + 1, i % 2 === 0 ? callerNonce("n") : upper)),
        );
        expect(outcomes.filter(({ kind }) => kind === "begun")).toHaveLength(1);
        expect(outcomes.filter(({ kind }) => kind === "caller_nonce_used")).toHaveLength(49);
        const totals = await store.totals();
        expect([totals.calls.held, totals.payments.intent]).toEqual([1, 1]);
      });

      test("A nonce is used up for its caller, service and job only, and its own letter case counts", async () => {
        await begin(1, callerNonce("n"));
        const others = [
          callerNonce("N"),
          callerNonce("n", { jobIndex: 8 }),
          callerNonce("n", { serviceId: 2n }),
          callerNonce("n", { caller: "0x70997970c51812dc3a010c7d01b50e0d17dc79c8" }),
        ];
        for (const [index, nonce] of others.entries()) {
          expect(await store.isCallerNonceUsed(nonce)).toBe(false);
          expect((await begin(index + 2, nonce)).kind).toBe("begun");
        }
      });

      test("A used nonce is remembered over a restart until its expiry has passed", async () => {
        await begin(1, callerNonce("n"));
        store = await underTest.reopen();
        now = START_MS + 59_999;
        expect(await store.isCallerNonceUsed(callerNonce("n"))).toBe(true);
        expect((await begin(2, callerNonce("n"))).kind).toBe("caller_nonce_used");
        now = START_MS + 60_001;
        expect(await store.isCallerNonceUsed(callerNonce("n"))).toBe(false);
        expect((await begin(3, callerNonce("n", { expiresAt: START_MS / 1000 + 120 }))).kind).toBe("begun");
        expect(await store.isCallerNonceUsed(callerNonce("n"))).toBe(true);
      });

      test("A nonce that has expired is not used up any more: it may have been used before", async () => {
        await begin(1, callerNonce("n"));
        now = START_MS + 60_000;
        expect((await begin(2, callerNonce("n"))).kind).toBe("caller_nonce_used");
        expect((await begin(3, callerNonce("never used"))).kind).toBe("caller_nonce_used");
        expect((await store.totals()).payments.intent).toBe(1);
      });

      test("A failed payment frees its nonce, but not that of the payment which took it over", async () => {
        await begin(1, callerNonce("n"));
        await store.failPayment(paymentIntent(1).key, "{}", "why");
        expect(await store.isCallerNonceUsed(callerNonce("n"))).toBe(false);

        await begin(2, callerNonce("n"));
        now += 61_000;
        await begin(3, callerNonce("n", { expiresAt: START_MS / 1000 + 200 }));
        await store.failPayment(paymentIntent(2).key, "{}", "why");
        expect(await store.isCallerNonceUsed(callerNonce("n"))).toBe(true);
      });
    });

    describe("leases", () => {
      test("Calls are claimed in order of their call id, each by one claim only", async () => {
        const ids = [];
        for (let i = 0; i < 30; i += 1) ids.push(await acceptId(store));
        const claims = await Promise.all(
          Array.from({ length: 10 }, () => store.claim(claimRequest({ limit: 4 }))),
        );
        expect(idsOf(claims.flat())).toEqual(ids);
        expect(new Set(claims.flat().map(({ leaseToken }) => leaseToken)).size).toBe(30);
      });

      test("A filter gives calls of those jobs only, in order over all of them, each once", async () => {
        const big = 2n ** 64n - 1n;
        const jobs = [1n, 2n, big, 3n, 1n, big];
        const ids: number[] = [];
        for (const jobId of jobs) ids.push(await acceptId(store, { jobId }));
        const first = await store.claim(claimRequest({ jobIds: [big, 1n, big], limit: 3 }));
        expect(idsOf(first)).toEqual([ids[0], ids[2], ids[4]]);
        expect(idsOf(await store.claim(claimRequest({ jobIds: [big, 1n] })))).toEqual([ids[5]]);
        expect(idsOf(await store.claim(claimRequest()))).toEqual([ids[1], ids[3]]);
      });

      test("A lease that ran out goes to the next subscriber, with a higher attempt and in its old place", async () => {
        const first = await acceptId(store);
        const lost = await claimOne(store);
        const second = await acceptId(store);
        now += LEASE_MS;
        const claimed = await store.claim(claimRequest());
        expect(idsOf(claimed)).toEqual([first, second]);
        expect(claimed[0]?.attempt).toBe(2);
        expect(claimed[0]?.leaseToken).not.toBe(lost.leaseToken);
        expect(await store.ack(lost)).toBe("lease_lost");
      });

      test("A lease ends at its very expiry, for each way to finish, even if nobody has claimed it since", async () => {
        await acceptId(store);
        const lease = await claimOne(store);
        now += LEASE_MS;
        expect(await store.ack(lease)).toBe("lease_lost");
        expect(await store.fail(lease, "late")).toBe("lease_lost");
        expect(await store.retry(lease, retryNow())).toBe("lease_lost");
        expect(await store.release(lease, { excused: false })).toBe("lease_lost");
        expect((await store.extend(lease, LEASE_MS)).outcome).toBe("lease_lost");
        now -= 1;
        expect(await store.ack(lease)).toBe("done");
      });

      test("A foreign token loses, a finished or unknown call is not found", async () => {
        const callId = await acceptId(store);
        const foreign = { callId, leaseToken: "foreign" };
        expect(await store.ack(foreign)).toBe("lease_lost");
        const lease = await claimOne(store);
        expect(await store.ack(foreign)).toBe("lease_lost");
        expect(await store.ack(lease)).toBe("done");
        expect(await store.ack(lease)).toBe("not_found");
        expect(await store.ack({ ...lease, callId: callId + 1 })).toBe("not_found");
        await acceptId(store);
        const dead = await claimOne(store);
        await store.fail(dead, "no good");
        expect(await store.retry(dead, retryNow())).toBe("not_found");
      });

      test("A released call is due at once, and its old lease is lost", async () => {
        await acceptId(store);
        const released = await claimOne(store);
        expect(await store.release(released, { excused: false })).toBe("done");
        expect(await store.ack(released)).toBe("lease_lost");
        expect((await claimOne(store)).attempt).toBe(2);
      });

      test("An extended lease runs out later", async () => {
        await acceptId(store);
        const lease = await claimOne(store);
        now += LEASE_MS - 1;
        expect(await store.extend(lease, 5000)).toEqual({ outcome: "done", leaseExpiresAt: now + 5000 });
        now += 4999;
        expect(await store.claim(claimRequest())).toEqual([]);
        expect(await store.nextDue()).toBe(now + 1);
        now += 1;
        expect((await claimOne(store)).attempt).toBe(2);
      });

      test("A retried call is due after its delay and holds up no other", async () => {
        const retried = await acceptId(store);
        await store.retry(await claimOne(store), { ...retryNow(), delayMs: 5000 });
        const other = await acceptId(store);
        expect(idsOf(await store.claim(claimRequest()))).toEqual([other]);
        expect(await store.nextDue()).toBe(now + 5000);
        now += 5000;
        expect(await claimOne(store)).toMatchObject({ callId: retried, attempt: 2 });
      });

      test("Without a delay a retry waits for a random part of its backoff, which doubles up to its bound", async () => {
        const backoff = { baseMs: 1000, maxMs: 3000 };
        for (const boundMs of [1000, 2000, 3000, 3000]) {
          const delays: number[] = [];
          for (let i = 0; i < 10; i += 1) await acceptId(store);
          let calls = await store.claim(claimRequest({ maxAttempts: 99 }));
          for (let attempt = 1; attempt < [1000, 2000, 3000].indexOf(boundMs) + 1; attempt += 1) {
            await Promise.all(calls.map((call) => store.retry(call, { ...retryNow(), maxAttempts: 99 })));
            calls = await store.claim(claimRequest({ maxAttempts: 99 }));
          }
          for (const call of calls) {
            await store.retry(call, { backoff, maxAttempts: 99, reason: "again" });
            delays.push(((await store.nextDue()) ?? Number.NaN) - now);
            now += boundMs;
            await store.ack(await claimOne(store, { maxAttempts: 99, limit: 1 }));
          }
          expect(Math.min(...delays)).toBeGreaterThanOrEqual(0);
          expect(Math.max(...delays)).toBeLessThan(boundMs);
          expect(new Set(delays).size).toBeGreaterThan(3);
        }
      });

      test("nextDue is undefined while nothing is leased or delayed", async () => {
        await acceptId(store);
        expect(await store.nextDue()).toBeUndefined();
        await store.ack(await claimOne(store));
        expect(await store.nextDue()).toBeUndefined();
      });

      test("Leases survive a restart", async () => {
        await acceptId(store);
        await acceptId(store);
        const [acked, expired] = (await store.claim(claimRequest())) as [ClaimedCall, ClaimedCall];
        store = await underTest.reopen();
        expect(await store.claim(claimRequest())).toEqual([]);
        expect(await store.ack(acked)).toBe("done");
        now += LEASE_MS;
        expect((await claimOne(store)).callId).toBe(expired.callId);
      });
    });

    describe("listeners for work", () => {
      /** How many calls a claim made inside the listener gets. */
      async function claimedInListener(push: () => Promise<unknown>): Promise<number> {
        let claim: Promise<ClaimedCall[]> | undefined;
        const end = store.onWork(() => {
          claim ??= store.claim(claimRequest());
        });
        const pushed = push();
        expect(claim).toBeDefined();
        await pushed;
        end();
        return (await claim)?.length ?? 0;
      }

      test("A claim made in the listener gets the work that it is told of", async () => {
        expect(await claimedInListener(() => acceptId(store))).toBe(1);
        await store.beginPayment(paymentIntent(1), paidCall());
        expect(await claimedInListener(() => store.settlePayment(paymentIntent(1).key, "{}"))).toBe(1);
        const callId = await acceptId(store);
        const lease = await claimOne(store);
        expect(await claimedInListener(() => store.release(lease, { excused: true }))).toBe(1);
        now += LEASE_MS;
        const again = (await store.claim(claimRequest())).find((call) => call.callId === callId);
        if (again === undefined) throw new Error("the call is not due");
        expect(await claimedInListener(() => store.retry(again, { ...retryNow(), maxAttempts: 9 }))).toBe(1);
        now += LEASE_MS;
        await failAll();
        expect(await claimedInListener(() => store.retryDeadLetter(callId))).toBe(1);
      });

      test("A listener that ended hears nothing", async () => {
        let heard = 0;
        const end = store.onWork(() => {
          heard += 1;
        });
        await acceptId(store);
        end();
        await acceptId(store);
        expect(heard).toBe(1);
      });
    });

    describe("dead letters", () => {
      test("A call whose last lease ran out becomes a dead letter in place of another attempt", async () => {
        const callId = await acceptId(store, { serviceId: 9n });
        for (let attempt = 1; attempt <= 3; attempt += 1) {
          expect((await claimOne(store)).attempt).toBe(attempt);
          now += LEASE_MS;
        }
        const behind = await acceptId(store);
        expect(idsOf(await store.claim(claimRequest({ limit: 1 })))).toEqual([behind]);
        expect(await store.listDeadLetters({ limit: 10 })).toEqual([
          {
            callId,
            origin: "webhook",
            jobId: 30n,
            serviceId: 9n,
            attempts: 3,
            reason: "max_attempts",
            enqueuedAt: START_MS,
            deadAt: now,
          },
        ]);
      });

      test("A retry of the last attempt makes a dead letter, with the retry's reason", async () => {
        const callId = await acceptId(store);
        for (let attempt = 1; attempt <= 3; attempt += 1) {
          expect(await store.retry(await claimOne(store), retryNow("database is down"))).toBe("done");
        }
        expect(await store.claim(claimRequest())).toEqual([]);
        expect((await store.findDeadLetter(callId))?.reason).toBe("max_attempts: database is down");
      });

      test("Excused releases do not count towards maxAttempts, but the attempt number goes on", async () => {
        await acceptId(store);
        for (let attempt = 1; attempt <= 6; attempt += 1) {
          const call = await claimOne(store);
          expect(call.attempt).toBe(attempt);
          await store.release(call, { excused: attempt <= 3 });
        }
        expect(await store.claim(claimRequest())).toEqual([]);
        expect((await store.listDeadLetters({ limit: 1 }))[0]?.attempts).toBe(6);
      });

      test("A failed call is a dead letter with its reason and its bytes, also after a restart", async () => {
        const callId = await acceptId(store, { body: Buffer.from("poison") });
        await failAll("cannot parse");
        store = await underTest.reopen();
        const letter = await store.findDeadLetter(callId);
        expect(letter?.reason).toBe("cannot parse");
        expect(Buffer.from(letter?.encoded ?? []).toString()).toBe("poison");
        expect(await store.claim(claimRequest())).toEqual([]);
      });

      test("A dead letter that is retried has its attempts forgiven, and its attempt number goes on", async () => {
        const callId = await acceptId(store);
        for (let attempt = 1; attempt <= 3; attempt += 1)
          await store.retry(await claimOne(store), retryNow());
        expect(await store.retryDeadLetter(callId)).toBe(true);
        expect(await store.retryDeadLetter(callId)).toBe(false);
        for (let attempt = 4; attempt <= 6; attempt += 1) {
          const call = await claimOne(store);
          expect(call.attempt).toBe(attempt);
          await store.retry(call, retryNow());
        }
        expect((await store.findDeadLetter(callId))?.attempts).toBe(6);
      });

      test("A dropped dead letter is gone; what is not a dead letter cannot be retried or dropped", async () => {
        const callId = await acceptId(store);
        expect(await store.dropDeadLetter(callId)).toBe(false);
        expect(await store.retryDeadLetter(callId)).toBe(false);
        expect(await store.findDeadLetter(callId)).toBeUndefined();
        await failAll();
        expect(await store.dropDeadLetter(callId)).toBe(true);
        expect(await store.dropDeadLetter(callId)).toBe(false);
        expect(await store.listDeadLetters({ limit: 10 })).toEqual([]);
        expect((await store.totals()).calls.dead).toBe(0);
      });

      test("Dead letters are listed newest first and in pages", async () => {
        const ids = [await acceptId(store), await acceptId(store), await acceptId(store)];
        await failAll();
        const page = await store.listDeadLetters({ limit: 2 });
        expect(idsOf(page)).toEqual([ids[2], ids[1]]);
        expect(idsOf(await store.listDeadLetters({ limit: 2, before: page[1]?.callId ?? 0 }))).toEqual([
          ids[0],
        ]);
      });
    });

    describe("lookup by the paying client", () => {
      test("A paid call is held, queued, running and succeeded, with its result; also after a restart", async () => {
        const intent = paymentIntent(1);
        const begun = await store.beginPayment(intent, paidCall());
        const callId = begun.kind === "begun" ? begun.callId : 0;
        const stateNow = async () => (await store.findCall(callId))?.state;
        expect(await stateNow()).toBe("held");
        await store.settlePayment(intent.key, "{}");
        expect(await stateNow()).toBe("queued");
        const lease = await claimOne(store);
        expect(await stateNow()).toBe("running");
        expect(await store.findResult(callId)).toBeUndefined();
        now += 10;
        await store.ack(lease, { body: Buffer.from("result"), contentType: "text/plain" });
        store = await underTest.reopen();
        expect(await store.findCall(callId)).toEqual({
          callId,
          receipt: intent.receipt,
          state: "succeeded",
          attempt: 1,
          enqueuedAt: START_MS,
          finishedAt: START_MS + 10,
        });
        const result = await store.findResult(callId);
        expect(result?.contentType).toBe("text/plain");
        expect(Buffer.from(result?.body ?? []).toString()).toBe("result");
      });

      test("A call is queued again while it waits for a retry or its lease has run out", async () => {
        const callId = await paidId(store, 1);
        await store.retry(await claimOne(store), { ...retryNow(), delayMs: 1000 });
        expect(await store.findCall(callId)).toMatchObject({ state: "queued", attempt: 1 });
        now += 1000;
        await claimOne(store);
        now += LEASE_MS;
        expect(await store.findCall(callId)).toMatchObject({ state: "queued", attempt: 2 });
        expect((await store.totals()).paidCalls).toEqual({ ready: 1, leased: 0, done: 0, dead: 0 });
      });

      test("Progress told with a lease is shown while the call runs, until it is told anew; also after a restart", async () => {
        const callId = await paidId(store, 1);
        const lease = await claimOne(store);
        const progressNow = async () => (await store.findCall(callId))?.progress;
        expect(await progressNow()).toBeUndefined();
        const first = { percent: 0, text: "" };
        expect(await store.extend(lease, 5000, first)).toEqual({
          outcome: "done",
          leaseExpiresAt: now + 5000,
        });
        expect(await progressNow()).toEqual(first);
        const second = { percent: 100, text: "Größe 😀" };
        await store.extend(lease, 5000, second);
        store = await underTest.reopen();
        expect(await progressNow()).toEqual(second);
        await store.extend(lease, LEASE_MS);
        expect(await progressNow()).toEqual(second);
        await store.ack(lease);
        expect(await progressNow()).toBeUndefined();
      });

      test("Progress is over with its lease: neither the queue nor the next attempt shows it, and a lost lease tells none", async () => {
        const callId = await paidId(store, 1);
        const lost = await claimOne(store);
        await store.extend(lost, LEASE_MS, { percent: 40, text: "forty" });
        now += LEASE_MS;
        const late = { percent: 50, text: "late" };
        expect((await store.extend(lost, LEASE_MS, late)).outcome).toBe("lease_lost");
        const shown = async () => {
          const call = await store.findCall(callId);
          return [call?.state, call?.progress];
        };
        expect(await shown()).toEqual(["queued", undefined]);
        const next = await claimOne(store);
        expect(await shown()).toEqual(["running", undefined]);
        await store.extend(next, LEASE_MS, { percent: 10, text: "ten" });
        await store.release(next, { excused: false });
        expect(await shown()).toEqual(["queued", undefined]);
        await store.fail(await claimOne(store), "no good");
        expect(await shown()).toEqual(["failed", undefined]);
      });

      test("A call acknowledged without a result has succeeded and has none", async () => {
        const callId = await paidId(store, 1);
        await store.ack(await claimOne(store));
        expect((await store.findCall(callId))?.state).toBe("succeeded");
        expect(await store.findResult(callId)).toBeUndefined();
      });

      test("An empty result is a result", async () => {
        const callId = await paidId(store, 1);
        await store.ack(await claimOne(store), { body: new Uint8Array(), contentType: "text/plain" });
        const result = await store.findResult(callId);
        expect([result?.body.length, result?.contentType]).toEqual([0, "text/plain"]);
      });

      test("A paid dead letter has failed, and still has after it was dropped", async () => {
        const callId = await paidId(store, 1);
        await failAll();
        const failed = { state: "failed", attempt: 1, finishedAt: START_MS };
        expect(await store.findCall(callId)).toMatchObject(failed);
        now += 1000;
        await store.dropDeadLetter(callId);
        expect(await store.findCall(callId)).toMatchObject(failed);
        expect(await store.findResult(callId)).toBeUndefined();
        await expectBalance();
      });

      test("A webhook's call leaves nothing behind", async () => {
        const callId = await acceptId(store);
        expect(await store.findCall(callId)).toBeUndefined();
        await store.ack(await claimOne(store), { body: Buffer.from("result"), contentType: "text/plain" });
        expect(await store.findCall(callId)).toBeUndefined();
        expect(await store.findResult(callId)).toBeUndefined();
      });

      test("The call of a failed payment is not found", async () => {
        const begun = await store.beginPayment(paymentIntent(1), paidCall());
        await store.failPayment(paymentIntent(1).key, "{}", "why");
        expect(await store.findCall(begun.kind === "begun" ? begun.callId : 0)).toBeUndefined();
      });
    });

    describe("totals", () => {
      test("Settled payments balance with ready, leased, done and dead at each step", async () => {
        for (const number of [1, 2, 3, 4, 5, 6]) {
          await paidId(store, number);
          await expectBalance();
        }
        await store.beginPayment(paymentIntent(7), paidCall());
        await acceptId(store);
        const [acked, failed, dropped, retried] = await store.claim(claimRequest({ limit: 5 }));
        if (!acked || !failed || !dropped || !retried) throw new Error("expected four calls");
        await store.ack(acked);
        await store.fail(failed, "no good");
        await store.fail(dropped, "no good");
        await store.dropDeadLetter(dropped.callId);
        await store.retry(retried, { ...retryNow(), delayMs: 1000 });
        await expectBalance();
        store = await underTest.reopen();
        expect(await store.totals()).toEqual({
          payments: { intent: 1, settled: 6, failed: 0, unresolved: 0 },
          calls: { held: 1, ready: 3, leased: 1, dead: 1 },
          paidCalls: { ready: 2, leased: 1, done: 1, dead: 2 },
          oldestReadyAt: START_MS,
        });
      });
    });

    describe("revenue", () => {
      const HOUR_MS = 3_600_000;
      const since = START_MS - (START_MS % HOUR_MS);
      const settle = async (number: number, amount: string, symbol = "USDC") => {
        const intent = paymentIntent(number, { amount, symbol });
        await store.beginPayment(intent, paidCall());
        await store.settlePayment(intent.key, "{}");
      };

      test("What settled is summed by token and time, exactly beyond 64 bits; also after a restart", async () => {
        const most = 2n ** 64n - 1n;
        for (let number = 1; number <= 3; number++) await settle(number, String(most));
        await settle(4, "7", "EURC");
        now += HOUR_MS;
        await settle(5, "1000000000");
        await store.beginPayment(paymentIntent(6), paidCall());
        store = await underTest.reopen();
        const { network, asset } = paymentIntent(1).key;
        const token = { network, asset };
        expect(await store.revenue({ since, bucketMs: HOUR_MS })).toEqual([
          { from: since, ...token, symbol: "EURC", amount: 7n, payments: 1 },
          { from: since, ...token, symbol: "USDC", amount: 3n * most, payments: 3 },
          { from: since + HOUR_MS, ...token, symbol: "USDC", amount: 1_000_000_000n, payments: 1 },
        ]);
        expect(await store.revenue({ since: since + HOUR_MS, bucketMs: HOUR_MS })).toHaveLength(1);
      });

      test("The totals tell since when the JobCall waits that waits longest", async () => {
        expect((await store.totals()).oldestReadyAt).toBeUndefined();
        await store.accept(webhookCall());
        now += 1000;
        await store.accept(webhookCall());
        expect((await store.totals()).oldestReadyAt).toBe(START_MS);
        const call = await claimOne(store, { limit: 1 });
        expect((await store.totals()).oldestReadyAt).toBe(START_MS + 1000);
        await store.retry(call, { ...retryNow(), delayMs: 1000 });
        expect((await store.totals()).oldestReadyAt).toBe(START_MS);
      });
    });

    describe("offers", () => {
      const job = { serviceId: 2n ** 64n - 1n, jobIndex: 2 ** 32 - 1 };
      const offer = (id: string, validUntil: number) => ({ id, job, offer: `{"id":"${id}"}`, validUntil });

      test("Offers of a job are found until they end, the one that ends last first; also after a restart", async () => {
        await store.saveOffers([offer("a", START_MS + 1000), offer("b", START_MS + 2000)]);
        await store.saveOffers([{ ...offer("other", START_MS + 5000), job: { ...job, jobIndex: 0 } }]);
        store = await underTest.reopen();
        expect(await store.findOffers(job)).toEqual([
          offer("b", START_MS + 2000),
          offer("a", START_MS + 1000),
        ]);
        now += 1000;
        expect(await store.findOffers(job)).toEqual([offer("b", START_MS + 2000)]);
        expect(await store.findOffers({ serviceId: 1n, jobIndex: 1 })).toEqual([]);
      });

      test("An offer that is saved again keeps the later of its ends", async () => {
        await store.saveOffers([offer("a", START_MS + 2000)]);
        await store.saveOffers([offer("a", START_MS + 1000)]);
        expect(await store.findOffers(job)).toEqual([offer("a", START_MS + 2000)]);
        await store.saveOffers([offer("a", START_MS + 3000)]);
        expect(await store.findOffers(job)).toEqual([offer("a", START_MS + 3000)]);
      });
    });

    describe("quotes", () => {
      const quote = { digest: "d".repeat(64), quote: '{"price":"1"}', expiresAt: START_MS + 1000 };

      test("A quote is found until it expires, as it was written first; also after a restart", async () => {
        expect(await store.saveQuote(quote)).toEqual(quote);
        expect(await store.saveQuote({ ...quote, quote: "{}" })).toEqual(quote);
        store = await underTest.reopen();
        expect(await store.findQuote(quote.digest)).toEqual({ ...quote, isPaid: false });
        expect(await store.findQuote("e".repeat(64))).toBeUndefined();
        now += 1000;
        expect(await store.findQuote(quote.digest)).toBeUndefined();
      });

      test("A quote is paid while a payment has its digest as its receipt, unless that failed", async () => {
        await store.saveQuote(quote);
        const paying = { ...paymentIntent(1), receipt: quote.digest };
        await store.beginPayment(paying, paidCall());
        expect(await store.findQuote(quote.digest)).toMatchObject({ isPaid: true });
        await store.failPayment(paying.key, "{}", "nothing moved");
        expect(await store.findQuote(quote.digest)).toMatchObject({ isPaid: false });
      });
    });

    describe("receipts", () => {
      const withReceipt = (number: number, more: Partial<PaymentIntent> = {}) => ({
        ...paymentIntent(number),
        receipt: "a".repeat(64),
        ...more,
      });

      test("Of fifty payments begun at once with one receipt, one is begun and the others changed nothing", async () => {
        const outcomes = await Promise.all(
          Array.from({ length: 50 }, (_, i) => store.beginPayment(withReceipt(i + 1), paidCall())),
        );
        expect(outcomes.filter(({ kind }) => kind === "begun")).toHaveLength(1);
        expect(outcomes.filter(({ kind }) => kind === "receipt_used")).toHaveLength(49);
        expect((await store.totals()).calls.held).toBe(1);
      });

      test("A payment with a spare receipt takes that when the first is another's", async () => {
        const first = await store.beginPayment(withReceipt(1, { spareReceipt: "b".repeat(64) }), paidCall());
        const second = await store.beginPayment(withReceipt(2, { spareReceipt: "c".repeat(64) }), paidCall());
        expect([first, second]).toMatchObject([
          { kind: "begun", receipt: "a".repeat(64) },
          { kind: "begun", receipt: "c".repeat(64) },
        ]);
        expect(await store.findPayment(withReceipt(2).key)).toMatchObject({ receipt: "c".repeat(64) });
      });

      test("The receipt of a payment that failed is free again, that of a settled one is not", async () => {
        await store.beginPayment(withReceipt(1), paidCall());
        await store.failPayment(withReceipt(1).key, "{}", "nothing moved");
        expect(await store.beginPayment(withReceipt(2), paidCall())).toMatchObject({ kind: "begun" });
        await store.settlePayment(withReceipt(2).key, "{}");
        store = await underTest.reopen();
        expect(await store.beginPayment(withReceipt(3), paidCall())).toEqual({ kind: "receipt_used" });
      });
    });

    describe("closing", () => {
      test("Closing waits for what is in flight, twice is safe, and later work is refused", async () => {
        const accepts = Array.from({ length: 20 }, () => store.accept(webhookCall()));
        await Promise.all([store.close(), store.close()]);
        expect((await Promise.all(accepts)).every(({ kind }) => kind === "accepted")).toBe(true);
        await expect(store.accept(webhookCall())).rejects.toMatchObject({ code: "store_unavailable" });
        store = await underTest.reopen();
        expect((await store.totals()).calls.ready).toBe(20);
      });
    });
  });
}
