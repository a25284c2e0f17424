import { describe, expect, test } from "vitest";
import {
  acceptId,
  claimOne,
  claimRequest,
  LEASE_MS,
  NO_BACKOFF,
  paidCall,
  paidId,
  paymentIntent,
  START_MS,
} from "../store-fixtures.ts";
import { expectBalance, failAll, type Given, retryNow } from "./given.ts";

export function describeLookups(given: Given): void {
  describe("lookup by the paying client", () => {
    test("A paid call is held, queued, running and succeeded, with its result; also after a restart", async () => {
      const intent = paymentIntent(1);
      const begun = await given.store.beginPayment(intent, paidCall());
      const callId = begun.kind === "begun" ? begun.callId : 0;
      const stateNow = async () => (await given.store.findCall(callId))?.state;
      expect(await stateNow()).toBe("held");
      await given.store.settlePayment(intent.key, "{}");
      expect(await stateNow()).toBe("queued");
      const lease = await claimOne(given.store);
      expect(await stateNow()).toBe("running");
      expect(await given.store.findResult(callId)).toBeUndefined();
      given.now += 10;
      await given.store.ack(lease, { body: Buffer.from("result"), contentType: "text/plain" });
      await given.reopen();
      expect(await given.store.findCall(callId)).toEqual({
        callId,
        payment: intent.key,
        job: { serviceId: intent.serviceId, jobIndex: intent.jobIndex },
        settlement: "{}",
        state: "succeeded",
        attempt: 1,
        enqueuedAt: START_MS,
        finishedAt: START_MS + 10,
      });
      const result = await given.store.findResult(callId);
      expect(result?.contentType).toBe("text/plain");
      expect(Buffer.from(result?.body ?? []).toString()).toBe("result");
    });

    test("A call is queued again while it waits for a retry or its lease has run out", async () => {
      const callId = await paidId(given.store, 1);
      await given.store.retry(await claimOne(given.store), { ...retryNow(), delayMs: 1000 });
      expect(await given.store.findCall(callId)).toMatchObject({ state: "queued", attempt: 1 });
      given.now += 1000;
      await claimOne(given.store);
      given.now += LEASE_MS;
      expect(await given.store.findCall(callId)).toMatchObject({ state: "queued", attempt: 2 });
      expect((await given.store.totals()).paidCalls).toEqual({ ready: 1, leased: 0, done: 0, dead: 0 });
    });

    test("Progress reported with a lease is shown while the call runs, until the next report; also after a restart", async () => {
      const callId = await paidId(given.store, 1);
      const lease = await claimOne(given.store);
      const progressNow = async () => (await given.store.findCall(callId))?.progress;
      expect(await progressNow()).toBeUndefined();
      const first = { percent: 0, text: "" };
      expect(await given.store.extend(lease, 5000, first)).toEqual({
        outcome: "done",
        leaseExpiresAt: given.now + 5000,
      });
      expect(await progressNow()).toEqual(first);
      const second = { percent: 100, text: "Größe 😀" };
      await given.store.extend(lease, 5000, second);
      await given.reopen();
      expect(await progressNow()).toEqual(second);
      await given.store.extend(lease, LEASE_MS);
      expect(await progressNow()).toEqual(second);
      await given.store.ack(lease);
      expect(await progressNow()).toBeUndefined();
    });

    test("Progress ends with its lease: neither the queue nor the next attempt shows it, and a lost lease reports none", async () => {
      const callId = await paidId(given.store, 1);
      const lost = await claimOne(given.store);
      await given.store.extend(lost, LEASE_MS, { percent: 40, text: "forty" });
      given.now += LEASE_MS;
      const late = { percent: 50, text: "late" };
      expect((await given.store.extend(lost, LEASE_MS, late)).outcome).toBe("lease_lost");
      const shown = async () => {
        const call = await given.store.findCall(callId);
        return [call?.state, call?.progress];
      };
      expect(await shown()).toEqual(["queued", undefined]);
      const next = await claimOne(given.store);
      expect(await shown()).toEqual(["running", undefined]);
      await given.store.extend(next, LEASE_MS, { percent: 10, text: "ten" });
      await given.store.release(next, { excused: false, maxAttempts: 3, backoff: NO_BACKOFF });
      expect(await shown()).toEqual(["queued", undefined]);
      await given.store.fail(await claimOne(given.store), "no good");
      expect(await shown()).toEqual(["failed", undefined]);
    });

    test("An ack without a result makes a call succeeded without a result", async () => {
      const callId = await paidId(given.store, 1);
      await given.store.ack(await claimOne(given.store));
      expect((await given.store.findCall(callId))?.state).toBe("succeeded");
      expect(await given.store.findResult(callId)).toBeUndefined();
    });

    test("An empty result is a result", async () => {
      const callId = await paidId(given.store, 1);
      await given.store.ack(await claimOne(given.store), {
        body: new Uint8Array(),
        contentType: "text/plain",
      });
      const result = await given.store.findResult(callId);
      expect([result?.body.length, result?.contentType]).toEqual([0, "text/plain"]);
    });

    test("A result has its status and headers, also after a restart", async () => {
      const callId = await paidId(given.store, 1);
      const headers = [["etag", '"\u00ff"'] as const, ["link", "</a>"] as const, ["link", "</b>"] as const];
      const result = { body: Buffer.from("{}"), contentType: "application/json", status: 201, headers };
      await given.store.ack(await claimOne(given.store), result);
      await given.reopen();
      expect(await given.store.findCall(callId)).toMatchObject({ state: "succeeded", status: 201 });
      expect(await given.store.findResult(callId)).toMatchObject({ status: 201, headers });
    });

    test("A status of 400 or above fails a call, which has its result and is no dead letter", async () => {
      const [failed, plain] = [await paidId(given.store, 1), await paidId(given.store, 2)];
      const webhook = await acceptId(given.store);
      const { calls } = await given.store.claim(claimRequest());
      const status = { [failed]: 404, [webhook]: 500 };
      const outcomes = await Promise.all(
        calls.map((lease) =>
          given.store.ack(lease, {
            body: Buffer.from("{}"),
            contentType: "application/json",
            status: status[lease.callId],
          }),
        ),
      );
      expect(outcomes.map(({ outcome }) => outcome)).toEqual(["done", "done", "done"]);
      expect(await given.store.findCall(failed)).toMatchObject({ state: "failed", status: 404, attempt: 1 });
      expect(await given.store.findCall(failed)).not.toHaveProperty("reason");
      expect(await given.store.findResult(failed)).toMatchObject({
        contentType: "application/json",
        status: 404,
      });
      expect(await given.store.findCall(plain)).toMatchObject({ state: "succeeded" });
      expect((await given.store.totals()).calls.dead).toBe(0);
      expect(await given.store.findCallDetails(webhook)).toMatchObject({ state: "failed", status: 500 });
      expect(await given.store.findCallDetails(plain)).toMatchObject({ state: "done", status: undefined });
      await expectBalance(given.store);
    });

    test("A paid dead letter is failed, also after it was dropped", async () => {
      const callId = await paidId(given.store, 1);
      await failAll(given.store);
      const failed = { state: "failed", attempt: 1, reason: "no good", finishedAt: START_MS };
      expect(await given.store.findCall(callId)).toMatchObject(failed);
      given.now += 1000;
      await given.store.dropDeadLetter(callId);
      expect(await given.store.findCall(callId)).toMatchObject(failed);
      expect(await given.store.findResult(callId)).toBeUndefined();
      await expectBalance(given.store);
    });

    test("A dead letter that is retried has no reason any more", async () => {
      const callId = await paidId(given.store, 1);
      await failAll(given.store);
      await given.store.retryDeadLetter(callId);
      expect(await given.store.findCall(callId)).not.toHaveProperty("reason");
      await given.store.retry(await claimOne(given.store), { ...retryNow("busy"), maxAttempts: 1 });
      expect(await given.store.findCall(callId)).toMatchObject({
        state: "failed",
        reason: "max_attempts: busy",
      });
    });

    test("A webhook's call leaves nothing behind", async () => {
      const callId = await acceptId(given.store);
      expect(await given.store.findCall(callId)).toBeUndefined();
      await given.store.ack(await claimOne(given.store), {
        body: Buffer.from("result"),
        contentType: "text/plain",
      });
      expect(await given.store.findCall(callId)).toBeUndefined();
      expect(await given.store.findResult(callId)).toBeUndefined();
    });

    test("The call of a failed payment is not found", async () => {
      const begun = await given.store.beginPayment(paymentIntent(1), paidCall());
      await given.store.failPayment(paymentIntent(1).key, "{}", "why");
      expect(await given.store.findCall(begun.kind === "begun" ? begun.callId : 0)).toBeUndefined();
    });
  });
}
