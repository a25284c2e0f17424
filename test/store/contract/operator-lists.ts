import { describe, expect, test } from "vitest";
import type { CallFilter, PaymentFilter } from "../../../src/store/contract/operator-lists.ts";
import { MAX_STEPS } from "../../../src/store/rules/call-steps.ts";
import {
  acceptId,
  claimCalls,
  claimOne,
  LEASE_MS,
  NO_BACKOFF,
  paidCall,
  paidId,
  paymentIntent,
  START_MS,
} from "../store-fixtures.ts";
import { failAll, type Given, idsOf, retryNow } from "./given.ts";

const OTHER_PAYER = "0x00000000000000000000000000000000000000aa";

export function describeOperatorLists(given: Given): void {
  const list = async (filter: Partial<CallFilter> = {}) =>
    idsOf((await given.store.listCalls({ limit: 100, ...filter })).items);
  const listPayments = async (filter: Partial<PaymentFilter> = {}) =>
    idsOf((await given.store.listPayments({ limit: 100, ...filter })).items);
  const details = (callId: number) => given.store.findCallDetails(callId);
  const begin = async (number: number, payer?: string) => {
    const intent = paymentIntent(number);
    const key = { ...intent.key, ...(payer === undefined ? {} : { payer }) };
    const begun = await given.store.beginPayment({ ...intent, key }, paidCall({ serviceId: 2n ** 64n - 1n }));
    return { key, callId: begun.kind === "begun" ? begun.callId : 0 };
  };

  describe("the operator's lists", () => {
    test("A call is found in each state by that state, its origin and its job, and in no other", async () => {
      const expectFound = async (callId: number, is: { state: string; origin: string; jobId: bigint }) => {
        for (const state of ["held", "ready", "leased", "done", "dead", "failed", "dropped"] as const) {
          const expected = state === is.state ? [callId] : [];
          expect([state, await list({ state })]).toEqual([state, expected]);
          for (const origin of ["webhook", "x402"] as const)
            expect(await list({ state, origin })).toEqual(origin === is.origin ? expected : []);
          expect(await list({ state, jobId: is.jobId, serviceId: 1n })).toEqual(
            is.origin === "webhook" ? expected : [],
          );
          expect(await list({ state, jobId: 99n })).toEqual([]);
        }
        expect(await list()).toEqual([callId]);
        expect(await list({ origin: is.origin as CallFilter["origin"] })).toEqual([callId]);
        expect(await list({ jobId: is.jobId })).toEqual([callId]);
      };
      const webhook = { origin: "webhook", jobId: 30n };
      const callId = await acceptId(given.store);
      await expectFound(callId, { ...webhook, state: "ready" });
      const lease = await claimOne(given.store);
      await expectFound(callId, { ...webhook, state: "leased" });
      await given.store.retry(lease, { ...retryNow(), delayMs: 1_000 });
      await expectFound(callId, { ...webhook, state: "ready" });
      given.now += 1_000;
      await claimOne(given.store);
      given.now += LEASE_MS;
      await expectFound(callId, { ...webhook, state: "ready" });
      await failAll(given.store);
      await expectFound(callId, { ...webhook, state: "dead" });
      await given.store.retryDeadLetter(callId);
      await given.store.ack(await claimOne(given.store));
      await expectFound(callId, { ...webhook, state: "done" });
      await given.reopen();
      await expectFound(callId, { ...webhook, state: "done" });
    });

    test("A paid call is found by its payer while it is held, ready, and once it is done or dropped", async () => {
      const { key, callId } = await begin(1);
      const expectState = async (state: CallFilter["state"]) => {
        for (const filter of [{ state }, { payer: key.payer }, { payer: key.payer, state }])
          expect(await list(filter)).toEqual([callId]);
        expect(await list({ payer: OTHER_PAYER })).toEqual([]);
      };
      await expectState("held");
      await given.store.leavePaymentUnresolved(key, "no answer");
      await expectState("held");
      await given.store.settlePayment(key, "{}");
      await expectState("ready");
      const { items } = await given.store.listCalls({ limit: 1 });
      const { network, asset, payer } = key;
      expect(items[0]).toMatchObject({
        payment: { network, asset, payer, amount: "3264000", symbol: "USDC" },
      });
      await failAll(given.store);
      await expectState("dead");
      await given.store.dropDeadLetter(callId);
      await expectState("dropped");
      expect((await details(callId))?.reason).toBe("no good");
    });

    test("Calls and payments are listed newest first, in pages that neither repeat nor miss any", async () => {
      const ids: number[] = [];
      for (const number of [1, 2, 3, 4]) {
        ids.push(await acceptId(given.store));
        ids.push(await paidId(given.store, number));
      }
      await given.store.ack(
        (await claimCalls(given.store, { limit: 3 }))[1] ?? (await claimOne(given.store)),
      );
      for (const lease of await claimCalls(given.store, { limit: 2 })) await given.store.fail(lease, "no");
      const newest = ids.toReversed();
      expect(await list()).toEqual(newest);
      for (const filter of [{}, { state: "ready" }, { origin: "x402" }, { jobId: 30n }] as const) {
        const paged: number[] = [];
        let next: number | undefined;
        do {
          const page = await given.store.listCalls({ ...filter, limit: 3, before: next });
          paged.push(...idsOf(page.items));
          next = page.next;
        } while (next !== undefined);
        expect(paged).toEqual(await list(filter));
      }
      const first = await given.store.listPayments({ state: "settled", limit: 3 });
      // Larger than the index of any job.
      expect(await listPayments({ jobId: 2n ** 64n - 1n })).toEqual([]);
      expect(idsOf(first.items)).toEqual(newest.filter((_, index) => index % 2 === 0).slice(0, 3));
      expect(await listPayments({ before: first.next })).toEqual([ids[1]]);
    });

    test("A time range selects the requests of that time, finished or not", async () => {
      const ids: number[] = [];
      for (const number of [1, 2, 3, 4, 5]) {
        ids.push((await begin(number)).callId);
        given.now += 1_000;
      }
      for (const number of [1, 2, 4]) await given.store.settlePayment(paymentIntent(number).key, "{}");
      for (const lease of await claimCalls(given.store, { limit: 2 })) await given.store.ack(lease);
      const range = { since: START_MS + 1_000, until: START_MS + 3_000 };
      expect(await listPayments(range)).toEqual([ids[2], ids[1]]);
      expect(await listPayments({ since: START_MS + 3_001 })).toEqual([ids[4]]);
      expect(await listPayments({ until: START_MS })).toEqual([]);
      const hooks: number[] = [];
      for (let second = 0; second < 20; second += 1) {
        hooks.push(await acceptId(given.store));
        given.now += 1_000;
      }
      for (const lease of await claimCalls(given.store, { limit: 12, jobIds: [30n] }))
        await given.store.ack(lease);
      const from = START_MS + 5_000;
      expect(await list({ since: from + 9_000, until: from + 15_000 })).toEqual(
        hooks.slice(9, 15).toReversed(),
      );
      expect(await list({ since: from + 100_000 })).toEqual([]);
    });

    test("A payment that is settled late moves no other call in time", async () => {
      const ids: number[] = [];
      for (let number = 1; number <= 8; number += 1) {
        ids.push(number === 4 ? (await begin(number)).callId : await acceptId(given.store));
        given.now += 1_000;
      }
      given.now += 60_000;
      await given.store.settlePayment(paymentIntent(4).key, "{}");
      const others = (found: readonly number[]) => found.filter((callId) => callId !== ids[3]);
      for (const index of ids.keys()) {
        const since = START_MS + index * 1_000;
        expect(others(await list({ since }))).toEqual(others(ids.slice(index)).toReversed());
      }
    });

    test("A text is found in the metadata of calls that wait and that are done, and in no body", async () => {
      const head = "event: push ref: Größe";
      const callId = await acceptId(given.store, { metadata: { head }, body: Buffer.from("push it") });
      const found = () => Promise.all(["ref: Größe", "push it", "größe"].map((text) => list({ text })));
      expect(await found()).toEqual([[callId], [], []]);
      await given.store.ack(await claimOne(given.store));
      expect(await found()).toEqual([[callId], [], []]);
      expect(Buffer.from((await details(callId))?.head ?? []).toString()).toBe(head);
    });

    test("Payments are listed by state, payer, job and service", async () => {
      const one = await begin(1);
      const two = await begin(2, OTHER_PAYER);
      await given.store.settlePayment(one.key, "{}");
      expect(await listPayments({ payer: OTHER_PAYER })).toEqual([two.callId]);
      expect(await listPayments({ payer: OTHER_PAYER, state: "settled" })).toEqual([]);
      expect(await listPayments({ jobId: 7n, state: "settled" })).toEqual([one.callId]);
      expect(await listPayments({ jobId: 8n })).toEqual([]);
      expect(await listPayments({ serviceId: 2n ** 64n - 1n })).toEqual([two.callId, one.callId]);
      expect(await listPayments({ serviceId: 1n })).toEqual([]);
    });

    test("The details name each delivery with its runner and how it ended", async () => {
      const callId = await acceptId(given.store);
      const claim = (subscriber: string) => claimOne(given.store, { subscriber, maxAttempts: 9 });
      const first = await claim("one");
      given.now += 10;
      await given.store.retry(first, { ...retryNow("busy".padEnd(500, "!")), maxAttempts: 9 });
      const second = await claim("two");
      given.now += 5;
      await given.store.release(second, { excused: false, maxAttempts: 9, backoff: NO_BACKOFF });
      const third = await claim("three");
      expect(await details(callId)).toMatchObject({
        state: "leased",
        subscriber: "three",
        claimedAt: START_MS + 15,
        dueAt: START_MS + 15 + LEASE_MS,
        attempts: 3,
      });
      await given.store.extend(third, 2 * LEASE_MS);
      given.now += 2 * LEASE_MS;
      await given.store.expireLeases(9);
      expect(await details(callId)).toMatchObject({ subscriber: undefined });
      await given.store.fail(await claim("four"), "broken");
      const deadAt = given.now;
      given.now += 1_000;
      await given.store.retryDeadLetter(callId);
      await given.store.ack(await claim("five"));
      await given.reopen();
      const expiredAt = START_MS + 15 + 2 * LEASE_MS;
      const delivery = { kind: "delivery" };
      expect(await details(callId)).toMatchObject({
        state: "done",
        attempts: 5,
        subscriber: "five",
        claimedAt: given.now,
        finishedAt: given.now,
        steps: [
          {
            ...delivery,
            attempt: 1,
            subscriber: "one",
            from: START_MS,
            to: START_MS + 10,
            reason: "busy".padEnd(200, "!"),
          },
          { ...delivery, attempt: 2, subscriber: "two", to: START_MS + 15, reason: "stream ended" },
          {
            ...delivery,
            attempt: 3,
            subscriber: "three",
            from: START_MS + 15,
            to: expiredAt,
            reason: "lease expired",
          },
          { ...delivery, attempt: 4, subscriber: "four", to: deadAt, reason: "broken" },
          { kind: "revival", deadAt, reason: "broken", at: deadAt + 1_000 },
        ],
      });
    });

    test("A dead letter says how its last delivery ended, however its attempts were used up", async () => {
      const [retried, expired] = [await acceptId(given.store), await acceptId(given.store)];
      const [lease] = await claimCalls(given.store, { subscriber: "one" });
      if (lease !== undefined) await given.store.retry(lease, { ...retryNow("busy"), maxAttempts: 1 });
      given.now += LEASE_MS;
      await given.store.expireLeases(1);
      const stepsOf = async (callId: number) => (await details(callId))?.steps;
      const step = { kind: "delivery", attempt: 1, subscriber: "one", from: START_MS };
      expect(await stepsOf(retried)).toEqual([{ ...step, to: START_MS, reason: "busy" }]);
      expect(await stepsOf(expired)).toEqual([{ ...step, to: START_MS + LEASE_MS, reason: "lease expired" }]);
    });

    test("Of many deliveries the latest are kept, whatever ended them", async () => {
      const callId = await acceptId(given.store);
      const last = MAX_STEPS + 4;
      for (let attempt = 1; attempt <= last; attempt += 1) {
        const lease = await claimOne(given.store, { maxAttempts: 99 });
        if (attempt % 2 === 0) await given.store.retry(lease, { ...retryNow(), maxAttempts: 99 });
        else given.now += LEASE_MS;
        await given.store.expireLeases(99);
      }
      const attempts = (await details(callId))?.steps.map((step) => step.kind === "delivery" && step.attempt);
      expect(attempts).toEqual(Array.from({ length: MAX_STEPS }, (_, index) => last - MAX_STEPS + 1 + index));
    });

    test("Only a call that was accepted or paid for is found", async () => {
      expect(await details(1)).toBeUndefined();
      const { key, callId } = await begin(1);
      expect(await details(callId)).toMatchObject({ state: "held", steps: [], attempts: 0 });
      await given.store.failPayment(key, "{}", "why");
      expect(await details(callId)).toBeUndefined();
      expect(await list()).toEqual([]);
    });
  });
}
