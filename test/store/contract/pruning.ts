import { describe, expect, test } from "vitest";
import { WATCHED_MS } from "../../../src/store/contract/payment-journal.ts";
import type { PrunedKind } from "../../../src/store/contract/pruning.ts";
import {
  acceptId,
  claimCalls,
  claimOne,
  paidCall,
  paidId,
  paymentIntent,
  START_MS,
} from "../store-fixtures.ts";
import { expectBalance, failAll, type Given, idsOf } from "./given.ts";

const DAY_MS = 86_400_000;

export function describePruning(given: Given): void {
  const prune = async (kind: PrunedKind, ageMs = DAY_MS) => {
    const { removed } = await given.store.prune({ kind, ageMs, after: 0 });
    await expectBalance(given.store);
    return removed;
  };
  const ackAll = async () => {
    for (const lease of await claimCalls(given.store, { limit: 100 }))
      await given.store.ack(lease, { body: Buffer.from("done"), contentType: "text/plain" });
  };
  const listed = async () => idsOf((await given.store.listCalls({ limit: 100 })).items);

  describe("a result that is forgotten at once", () => {
    test("Its bytes, headers and type are gone, and how its call ended stays", async () => {
      const [small, large, none] = [
        await paidId(given.store, 1),
        await paidId(given.store, 2),
        await paidId(given.store, 3),
      ];
      for (const lease of await claimCalls(given.store, { limit: 3 })) {
        const { callId } = lease;
        const result = { body: Buffer.from("done"), contentType: "text/plain", status: 404 };
        if (callId === none) await given.store.ack(lease);
        if (callId === small) await given.store.ack(lease, { ...result, headers: [["etag", "1"]] as const });
        if (callId !== large) continue;
        for (let place = 0; place < 20; place++)
          await given.store.appendResult(lease, place, Buffer.from("chunk"));
        await given.store.ack(lease, { ...result, body: Buffer.from(""), storedBytes: 100 });
      }
      const states = () => Promise.all([small, large, none].map((id) => given.store.findCall(id)));
      const before = await states();
      const totals = await given.store.totals();
      const forget = async (callId: number) => {
        let steps = 1;
        while (await given.store.forgetResult(callId)) steps++;
        return steps;
      };
      expect([await forget(small), await forget(large), await forget(none)]).toEqual([1, 6, 1]);
      const found = () => Promise.all([small, large, none].map((id) => given.store.findResult(id)));
      expect(await found()).toEqual(["not_kept", "not_kept", undefined]);
      expect(await given.store.readResult(small, 0, 10)).toBeUndefined();
      expect(await given.store.readResult(large, 0, 10)).toBeUndefined();
      expect(await given.store.resultBytes()).toBe(0);
      expect([await states(), await given.store.totals()]).toEqual([before, totals]);
      expect(await prune("chunks", 0)).toBe(0);
      await given.reopen();
      expect([await found(), await states()]).toEqual([["not_kept", "not_kept", undefined], before]);
      await expectBalance(given.store);
    });

    test("Chunks that a crash left of it are pruned", async () => {
      const callId = await paidId(given.store, 1);
      const lease = await claimOne(given.store);
      for (let place = 0; place < 20; place++)
        await given.store.appendResult(lease, place, Buffer.from("chunk"));
      await given.store.ack(lease, { body: Buffer.from(""), contentType: "a/b", storedBytes: 100 });
      expect(await given.store.forgetResult(callId)).toBe(true);
      expect(await prune("chunks", 0)).toBe(4);
    });
  });

  describe("retention", () => {
    test("Results and finished calls are forgotten once they ended long enough ago; payments stay known", async () => {
      const old = [await paidId(given.store, 1), await acceptId(given.store)];
      await ackAll();
      const later = await paidId(given.store, 2);
      given.now += DAY_MS;
      expect([await prune("results"), await prune("calls")]).toEqual([0, 0]);
      await ackAll();
      given.now += 1;
      expect([await prune("results"), await prune("calls")]).toEqual([1, 2]);

      expect(await given.store.findCall(old[0] ?? 0)).toMatchObject({
        state: "expired",
        payment: paymentIntent(1).key,
      });
      expect(await given.store.findResult(old[0] ?? 0)).toBeUndefined();
      expect(await given.store.findCall(later)).toMatchObject({ state: "succeeded" });
      expect(await listed()).toEqual([later]);
      expect(await given.store.beginPayment(paymentIntent(1), paidCall())).toMatchObject({
        kind: "payment_known",
        record: { state: "settled" },
      });
      await given.reopen();
      expect((await given.store.totals()).paidCalls).toMatchObject({ done: 2, dead: 0 });
      await expectBalance(given.store);
    });

    test("A payment is forgotten after its call and its result, and totals and revenue still count it", async () => {
      const callId = await paidId(given.store, 1);
      await ackAll();
      const totals = await given.store.totals();
      const revenue = { since: START_MS - (START_MS % 3_600_000), bucketMs: 3_600_000 };
      const sums = await given.store.revenue(revenue);
      given.now += 3 * DAY_MS;
      expect(await prune("payments")).toBe(0);
      await prune("calls");
      expect(await prune("payments")).toBe(0);
      await prune("results");
      expect(await prune("payments")).toBe(1);
      expect(await given.store.findPayment(paymentIntent(1).key)).toBeUndefined();
      expect(await given.store.findCall(callId)).toBeUndefined();
      expect(await given.store.totals()).toEqual(totals);
      expect(await given.store.revenue(revenue)).toEqual(sums);
    });

    test("A payment whose authorization may still be valid is never forgotten", async () => {
      const validBefore = START_MS / 1000 + 10 * 86_400;
      const intent = paymentIntent(1, { validBefore });
      await given.store.beginPayment(intent, paidCall());
      await given.store.settlePayment(intent.key, "{}");
      await ackAll();
      // A day for clocks that are wrong.
      given.now = (validBefore + 86_400) * 1000;
      await prune("results");
      await prune("calls");
      expect(await prune("payments")).toBe(0);
      expect(await given.store.beginPayment(intent, paidCall())).toMatchObject({ kind: "payment_known" });
      given.now += 1_000;
      expect(await prune("payments")).toBe(1);
    });

    test("An undecided, watched or unfinished payment is never forgotten", async () => {
      const begin = async (number: number) => {
        const intent = paymentIntent(number);
        const begun = await given.store.beginPayment(intent, paidCall());
        return { intent, callId: begun.kind === "begun" ? begun.callId : 0 };
      };
      await begin(1);
      const unresolved = await begin(2);
      await given.store.leavePaymentUnresolved(unresolved.intent.key, "why");
      const dead = await begin(3);
      await given.store.settlePayment(dead.intent.key, "{}");
      await failAll(given.store);
      given.now += 10 * DAY_MS;
      const failed = await begin(5);
      await given.store.failPayment(failed.intent.key, "{}", "not paid");
      given.now += WATCHED_MS + 3 * DAY_MS;
      for (const kind of ["results", "calls", "payments"] as const) await prune(kind);
      const known = async () => idsOf((await given.store.listPayments({ limit: 100 })).items);
      const all = [failed, dead, unresolved].map(({ callId }) => callId);
      expect(await known()).toEqual([...all, expect.any(Number)]);

      await given.store.endWatches();
      expect(await prune("payments")).toBe(1);
      await given.store.dropDeadLetter(dead.callId);
      for (const kind of ["results", "calls", "payments"] as const) await prune(kind);
      expect(await known()).toEqual([unresolved.callId, expect.any(Number)]);
      expect((await given.store.totals()).payments).toMatchObject({
        intent: 1,
        unresolved: 1,
        settled: 1,
        failed: 1,
      });
    });

    test("A call that ends long after later ones is forgotten by its own age", async () => {
      const slow = await acceptId(given.store);
      const lease = await claimOne(given.store, { leaseMs: 30 * DAY_MS });
      const quick = await acceptId(given.store);
      await ackAll();
      given.now += 10 * DAY_MS;
      await given.store.ack(lease);
      expect(await listed()).toEqual([quick, slow]);
      expect(await prune("calls")).toBe(1);
      expect(await listed()).toEqual([slow]);
    });

    test("A step checks a bounded number of entries, and returns where the next step begins", async () => {
      const count = 520;
      for (let done = 0; done < count; done += 40) {
        await Promise.all(Array.from({ length: 40 }, () => acceptId(given.store)));
        await ackAll();
      }
      given.now += 2 * DAY_MS;
      const first = await given.store.prune({ kind: "calls", ageMs: DAY_MS, after: 0 });
      expect(first.removed).toBeLessThan(count);
      const rest = await given.store.prune({ kind: "calls", ageMs: DAY_MS, after: first.next ?? 0 });
      expect([first.removed + rest.removed, rest.next]).toEqual([count, undefined]);
      expect(await listed()).toEqual([]);
    });
  });
}
