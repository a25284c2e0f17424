import { describe, expect, test } from "vitest";
import {
  claimCalls,
  claimOne,
  oneTimeNonce,
  paidCall,
  paidId,
  paymentIntent,
  START_MS,
} from "../store-fixtures.ts";
import { type Given, idsOf } from "./given.ts";

export function describePayments(given: Given): void {
  describe("payments", () => {
    test("A begun payment is found with everything that was written, by key and by fingerprint", async () => {
      const intent = paymentIntent(1, { oneTimeNonces: [oneTimeNonce("n")], purchaseName: "id" });
      const begun = await given.store.beginPayment(intent, paidCall());
      const record = {
        ...intent,
        state: "intent",
        callId: begun.kind === "begun" ? begun.callId : 0,
        createdAt: START_MS,
        updatedAt: START_MS,
      };
      expect(await given.store.findPayment(intent.key)).toEqual(record);
      expect(await given.store.findPaymentByFingerprint(intent.fingerprint)).toEqual(record);
      await given.reopen();
      expect(await given.store.findPayment(intent.key)).toEqual(record);
      expect(await given.store.findPayment(paymentIntent(2).key)).toBeUndefined();
      expect(await given.store.findPaymentByFingerprint("another")).toBeUndefined();
    });

    test("An intent without the optional parts is read back without them", async () => {
      const { fromBlock: _, ...intent } = paymentIntent(1);
      await given.store.beginPayment(intent, paidCall());
      const record = await given.store.findPayment(intent.key);
      const absent = {
        fromBlock: undefined,
        purchaseName: undefined,
        settlement: undefined,
        reason: undefined,
      };
      expect(record).toMatchObject({ ...intent, ...absent });
      expect(record).not.toHaveProperty("oneTimeNonces");
    });

    test("Exactly one of 50 concurrent begins of one payment begins, and makes one held call", async () => {
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, () => given.store.beginPayment(paymentIntent(1), paidCall())),
      );
      const begun = outcomes.filter(({ kind }) => kind === "begun");
      const known = outcomes.filter(({ kind }) => kind === "payment_known");
      expect([begun.length, known.length]).toEqual([1, 49]);
      expect(known[0]).toMatchObject({ record: { callId: begun[0]?.kind === "begun" && begun[0].callId } });
      expect((await given.store.totals()).calls.held).toBe(1);
    });

    test("The same payment in another letter case, or with another key, is the same payment", async () => {
      const intent = paymentIntent(0xabc);
      await given.store.beginPayment(intent, paidCall());
      const { key } = intent;
      const upperCase = {
        ...key,
        payer: key.payer.toUpperCase(),
        asset: key.asset.toUpperCase(),
        nonce: key.nonce.toUpperCase(),
      };
      const other = paymentIntent(2, { key: upperCase });
      expect((await given.store.beginPayment(other, paidCall())).kind).toBe("payment_known");
      expect((await given.store.findPayment(upperCase))?.fingerprint).toBe(intent.fingerprint);
      const otherKey = paymentIntent(3, { fingerprint: intent.fingerprint });
      expect((await given.store.beginPayment(otherKey, paidCall())).kind).toBe("payment_known");
    });

    test("Two accounts in base58 that differ in letter case alone are two payers", async () => {
      const [one, other] = [
        "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2",
        "7np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2",
      ];
      const intentOf = (number: number, payer = "") => {
        const { key } = paymentIntent(1);
        const keyOfPayer = { ...key, network: "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", payer };
        return paymentIntent(number, { key: keyOfPayer, purchaseName: "the same", boundHeaders: "" });
      };
      const begun = await Promise.all(
        [intentOf(1, one), intentOf(2, other)].map((intent) => given.store.beginPayment(intent, paidCall())),
      );
      const callIds = begun.map((outcome) => outcome.kind === "begun" && outcome.callId);
      expect(new Set(callIds).size).toBe(2);
      for (const [i, payer] of [one, other].entries()) {
        const { key, serviceId, jobIndex, bodyHash } = intentOf(i + 1, payer);
        expect(await given.store.findPayment(key)).toMatchObject({ callId: callIds[i], key });
        expect(idsOf((await given.store.listPayments({ payer, limit: 9 })).items)).toEqual([callIds[i]]);
        await given.store.settlePayment(key, "{}");
        const request = { ...key, serviceId, jobIndex, bodyHash };
        expect(await given.store.listBought(request, 10_000)).toEqual([callIds[i]]);
      }
    });

    test("A held call is not claimed before its payment is settled", async () => {
      await given.store.beginPayment(paymentIntent(1), paidCall());
      expect(await claimCalls(given.store)).toEqual([]);
      given.now += 1000;
      await given.store.settlePayment(paymentIntent(1).key, "{}");
      expect(await claimOne(given.store)).toMatchObject({ attempt: 1, enqueuedAt: START_MS + 1000 });
    });

    test("Settling twice makes one call, keeps the first settlement, and reports one change", async () => {
      await given.store.beginPayment(paymentIntent(1), paidCall());
      const { key } = paymentIntent(1);
      const [first, second] = await Promise.all([
        given.store.settlePayment(key, "first"),
        given.store.settlePayment(key, "second"),
      ]);
      expect(first).toMatchObject({ kind: "settled", changed: true });
      expect(second).toEqual({ ...first, changed: false });
      expect(first).toMatchObject({ record: await given.store.findPayment(key) });
      await given.store.ack(await claimOne(given.store));
      expect((await given.store.settlePayment(key, "third")).kind).toBe("settled");
      expect(await claimCalls(given.store)).toEqual([]);
      expect(await given.store.findPayment(key)).toMatchObject({ state: "settled", settlement: "first" });
    });

    test("A payment that was not begun cannot be settled or failed", async () => {
      const { key } = paymentIntent(1);
      expect(await given.store.settlePayment(key, "{}")).toEqual({ kind: "not_open" });
      expect(await given.store.failPayment(key, "{}", "why")).toEqual({ kind: "not_open" });
    });

    test("A failed payment takes its held call out of the queue, and cannot be begun or failed again", async () => {
      const { key } = paymentIntent(1);
      await given.store.beginPayment(paymentIntent(1), paidCall());
      expect(await given.store.failPayment(key, '{"success":false}', "reverted")).toEqual({
        kind: "failed",
        record: await given.store.findPayment(key),
      });
      expect(await given.store.findPayment(key)).toMatchObject({
        state: "failed",
        settlement: '{"success":false}',
        reason: "reverted",
      });
      expect(await given.store.failPayment(key, "{}", "again")).toEqual({ kind: "not_open" });
      expect((await given.store.beginPayment(paymentIntent(1), paidCall())).kind).toBe("payment_known");
      expect((await given.store.totals()).calls).toEqual({ held: 0, ready: 0, leased: 0, dead: 0 });
    });

    test("A settled payment cannot fail and keeps its call", async () => {
      const callId = await paidId(given.store, 1);
      expect(await given.store.failPayment(paymentIntent(1).key, "{}", "why")).toEqual({ kind: "not_open" });
      expect((await claimOne(given.store)).callId).toBe(callId);
    });

    test("An unresolved payment keeps its call held, and can be settled or failed later", async () => {
      for (const number of [1, 2, 3]) {
        await given.store.beginPayment(paymentIntent(number), paidCall());
        const { key } = paymentIntent(number);
        const changed = await given.store.leavePaymentUnresolved(key, "no answer");
        expect(changed).toMatchObject({ key, state: "unresolved", reason: "no answer" });
        expect(await given.store.leavePaymentUnresolved(key, "still no answer")).toBeUndefined();
      }
      expect(await given.store.findPayment(paymentIntent(1).key)).toMatchObject({
        state: "unresolved",
        reason: "no answer",
      });
      expect(await claimCalls(given.store)).toEqual([]);
      expect(await given.store.settlePayment(paymentIntent(1).key, "{}")).toMatchObject({ changed: true });
      expect((await given.store.failPayment(paymentIntent(2).key, "{}", "why")).kind).toBe("failed");
      expect((await given.store.totals()).payments).toMatchObject({
        intent: 0,
        settled: 1,
        failed: 1,
        unresolved: 1,
      });
      expect((await given.store.totals()).calls).toMatchObject({ held: 1, ready: 1 });
    });

    test("A decided payment cannot become unresolved", async () => {
      await paidId(given.store, 1);
      expect(await given.store.leavePaymentUnresolved(paymentIntent(1).key, "late")).toBeUndefined();
      expect((await given.store.findPayment(paymentIntent(1).key))?.state).toBe("settled");
    });

    test("Undecided payments are listed oldest first, by state, in pages, and with their age", async () => {
      const ids: number[] = [];
      for (const number of [1, 2, 3, 4]) {
        const begun = await given.store.beginPayment(paymentIntent(number), paidCall());
        if (begun.kind === "begun") ids.push(begun.callId);
        given.now += 1_000;
      }
      await given.store.settlePayment(paymentIntent(2).key, "{}");
      await given.store.leavePaymentUnresolved(paymentIntent(4).key, "no answer");
      const intents = await given.store.listUndecided({ state: "intent", limit: 10 });
      expect(intents).toEqual([
        { ...(await given.store.findPayment(paymentIntent(1).key)), ageMs: 4_000 },
        { ...(await given.store.findPayment(paymentIntent(3).key)), ageMs: 2_000 },
      ]);
      const page = await given.store.listUndecided({ state: "intent", limit: 1 });
      expect(idsOf(page)).toEqual([ids[0]]);
      const after = ids[0] ?? 0;
      expect(idsOf(await given.store.listUndecided({ state: "intent", limit: 1, after }))).toEqual([ids[2]]);
      expect(idsOf(await given.store.listUndecided({ state: "unresolved", limit: 10 }))).toEqual([ids[3]]);
    });
  });
}
