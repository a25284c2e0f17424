import { describe, expect, test } from "vitest";
import {
  acceptId,
  claimCalls,
  claimOne,
  paidCall,
  paidId,
  paymentIntent,
  START_MS,
  webhookCall,
} from "../store-fixtures.ts";
import { expectBalance, type Given, retryNow } from "./given.ts";

export function describeTotalsAndRevenue(given: Given): void {
  describe("totals", () => {
    test("Settled payments balance with ready, leased, done and dead at each step", async () => {
      for (const number of [1, 2, 3, 4, 5, 6]) {
        await paidId(given.store, number);
        await expectBalance(given.store);
      }
      await given.store.beginPayment(paymentIntent(7), paidCall());
      await acceptId(given.store);
      const [acked, failed, dropped, retried] = await claimCalls(given.store, { limit: 5 });
      if (!acked || !failed || !dropped || !retried) throw new Error("expected four calls");
      await given.store.ack(acked);
      await given.store.fail(failed, "no good");
      await given.store.fail(dropped, "no good");
      await given.store.dropDeadLetter(dropped.callId);
      await given.store.retry(retried, { ...retryNow(), delayMs: 1000 });
      await expectBalance(given.store);
      await given.reopen();
      expect(await given.store.totals()).toMatchObject({
        payments: { intent: 1, settled: 6, failed: 0, unresolved: 0 },
        calls: { held: 1, ready: 3, leased: 1, dead: 1 },
        paidCalls: { ready: 2, leased: 1, done: 1, dead: 2 },
        kept: 2,
        accounted: 0,
        oldestReadyAt: START_MS,
      });
    });
  });

  describe("countWaiting", () => {
    const EVERY = { kind: "except", jobIds: [] } as const;
    const of = (jobId: bigint) => webhookCall({ jobId });

    test("JobCalls that wait for a runner are counted by job, in all jobs or some", async () => {
      for (const jobId of [5n, 9n, 9n, 40n]) {
        await given.store.accept(of(jobId));
        given.now += 1_000;
      }
      await given.store.beginPayment(paymentIntent(1), paidCall());
      await paidId(given.store, 2);
      const [paid] = (await given.store.countWaiting(EVERY)).filter(({ origin }) => origin === "x402");
      expect(paid).toMatchObject({ count: 1, oldestAt: START_MS + 4_000 });
      const nines = { origin: "webhook", serviceId: of(9n).serviceId, jobId: 9n, count: 2 };
      expect(await given.store.countWaiting({ kind: "only", jobIds: [9n, 8n] })).toEqual([
        { ...nines, oldestAt: START_MS + 1_000 },
      ]);
      expect(await given.store.countWaiting({ kind: "only", jobIds: [] })).toEqual([]);
      const others = { kind: "except", jobIds: [9n, paid?.jobId ?? 0n] } as const;
      expect((await given.store.countWaiting(others)).map(({ jobId }) => jobId)).toEqual([40n, 5n]);
    });

    test("JobCalls at a runner or in the delay of a retry do not wait for one, until lease or delay ends", async () => {
      for (const jobId of [5n, 6n]) await given.store.accept(of(jobId));
      const leased = await claimOne(given.store, { limit: 1, leaseMs: 3_000 });
      const delayed = await claimOne(given.store, { limit: 1 });
      expect([leased.callId < delayed.callId, await given.store.countWaiting(EVERY)]).toEqual([true, []]);
      await given.store.retry(delayed, { ...retryNow(), delayMs: 1_000 });
      expect(await given.store.countWaiting(EVERY)).toEqual([]);
      given.now += 1_000;
      expect(await given.store.countWaiting(EVERY)).toMatchObject([{ jobId: 6n, count: 1 }]);
      given.now += 2_000;
      const jobs = await given.store.countWaiting(EVERY);
      expect(jobs.map(({ jobId, count }) => [jobId, count])).toEqual([
        [5n, 1],
        [6n, 1],
      ]);
    });
  });

  describe("revenue", () => {
    const HOUR_MS = 3_600_000;
    const since = START_MS - (START_MS % HOUR_MS);
    const settle = async (number: number, amount: string, symbol = "USDC") => {
      const intent = paymentIntent(number, { amount, symbol });
      await given.store.beginPayment(intent, paidCall());
      await given.store.settlePayment(intent.key, "{}");
    };

    test("Settled amounts are summed by token and time, exactly beyond 64 bits; also after a restart", async () => {
      const most = 2n ** 64n - 1n;
      for (let number = 1; number <= 3; number++) await settle(number, String(most));
      await settle(4, "7", "EURC");
      given.now += HOUR_MS;
      await settle(5, "1000000000");
      await given.store.beginPayment(paymentIntent(6), paidCall());
      await given.reopen();
      const { network, asset } = paymentIntent(1).key;
      const token = { network, asset };
      expect(await given.store.revenue({ since, bucketMs: HOUR_MS })).toEqual([
        { from: since, ...token, symbol: "EURC", amount: 7n, payments: 1 },
        { from: since, ...token, symbol: "USDC", amount: 3n * most, payments: 3 },
        { from: since + HOUR_MS, ...token, symbol: "USDC", amount: 1_000_000_000n, payments: 1 },
      ]);
      expect(await given.store.revenue({ since: since + HOUR_MS, bucketMs: HOUR_MS })).toHaveLength(1);
    });

    test("Revenue includes the first millisecond of its period, in buckets of any length", async () => {
      given.now = since + 10 * 60_000;
      await settle(1, "1");
      given.now = since + 20 * 60_000;
      await settle(2, "2");
      given.now = since + HOUR_MS;
      await settle(3, "4");
      const amounts = async (from: number, bucketMs: number) =>
        (await given.store.revenue({ since: from, bucketMs })).map(({ amount }) => amount);
      expect(await amounts(since + 20 * 60_000, HOUR_MS)).toEqual([2n, 4n]);
      expect(await amounts(since + 20 * 60_000 + 1, HOUR_MS)).toEqual([4n]);
      expect(await amounts(since, 60_000)).toEqual([1n, 2n, 4n]);
      expect((await amounts(since, 2 * HOUR_MS)).reduce((sum, amount) => sum + amount)).toBe(7n);
    });

    test("A payment that settles late is counted once, when it settled", async () => {
      const intent = paymentIntent(1, { amount: "5" });
      await given.store.beginPayment(intent, paidCall());
      await given.store.leavePaymentUnresolved(intent.key, "unknown");
      given.now = since + 5 * HOUR_MS;
      for (let i = 0; i < 2; i += 1) await given.store.settlePayment(intent.key, "{}");
      expect(await given.store.revenue({ since, bucketMs: HOUR_MS })).toMatchObject([
        { from: since + 5 * HOUR_MS, amount: 5n, payments: 1 },
      ]);
    });

    test("The totals have the time since which the oldest JobCall waits", async () => {
      expect((await given.store.totals()).oldestReadyAt).toBeUndefined();
      await given.store.accept(webhookCall());
      given.now += 1000;
      await given.store.accept(webhookCall());
      expect((await given.store.totals()).oldestReadyAt).toBe(START_MS);
      const call = await claimOne(given.store, { limit: 1 });
      expect((await given.store.totals()).oldestReadyAt).toBe(START_MS + 1000);
      await given.store.retry(call, { ...retryNow(), delayMs: 1000 });
      expect((await given.store.totals()).oldestReadyAt).toBe(START_MS);
    });
  });
}
