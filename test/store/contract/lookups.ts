import { describe, expect, test } from "vitest";
import { RESULT_CHUNK_BYTES } from "../../../src/core/job-call.ts";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import type { PruneOutcome } from "../../../src/store/contract/pruning.ts";
import type { Lease } from "../../../src/store/contract/work-queue.ts";
import {
  acceptId,
  claimOne,
  claimRequest,
  keptResult,
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
      const result = keptResult(await given.store.findResult(callId));
      expect(result?.contentType).toBe("text/plain");
      expect(Buffer.from(result?.body ?? []).toString()).toBe("result");
    });

    test("A payer's calls of one request are found, newest first, by payments that are settled and recent", async () => {
      const bound = { boundHeaders: "accept" };
      const buy = async (number: number, overrides: Partial<PaymentIntent> = bound) => {
        const intent = paymentIntent(number, overrides);
        const begun = await given.store.beginPayment(intent, paidCall());
        await given.store.settlePayment(intent.key, "{}");
        return begun.kind === "begun" ? begun.callId : 0;
      };
      const { key, serviceId, jobIndex, bodyHash } = paymentIntent(1);
      const { payer, network } = key;
      const request = { payer, network, serviceId, jobIndex, bodyHash };
      const old = await buy(1);
      given.now += 1_000;
      const newest = await buy(2);
      await buy(3, { ...bound, bodyHash: "another" });
      await buy(4, { ...bound, jobIndex: 8 });
      const elsewhere = await buy(5, { ...bound, key: { ...paymentIntent(5).key, network: "eip155:1" } });
      await buy(6, { ...bound, key: { ...paymentIntent(6).key, payer: `0x${"9".repeat(40)}` } });
      await buy(7, {});
      await given.store.beginPayment(paymentIntent(8, bound), paidCall());
      await given.store.beginPayment(paymentIntent(9, bound), paidCall());
      await given.store.failPayment(paymentIntent(9).key, "{}", "reverted");
      expect(await given.store.listBought(request, 10_000)).toEqual([newest, old]);
      const anywhere = { ...request, network: undefined };
      expect(await given.store.listBought(anywhere, 10_000)).toEqual([elsewhere, newest, old]);
      const spelled = { ...request, payer: payer.toUpperCase().replace("0X", "0x") };
      expect(await given.store.listBought(spelled, 1_000)).toEqual([newest]);
      given.now += 1_000;
      expect(await given.store.listBought(request, 1_000)).toEqual([]);
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
      const result = keptResult(await given.store.findResult(callId));
      expect([result?.body?.length, result?.contentType]).toEqual([0, "text/plain"]);
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

    test("A large result is stored in chunks, and read in pieces; also after a restart", async () => {
      const [large, other] = [await paidId(given.store, 1), await paidId(given.store, 2)];
      const { calls } = await given.store.claim(claimRequest());
      const leaseOf = (callId: number) =>
        calls.find((call) => call.callId === callId) ?? (calls[0] as (typeof calls)[0]);
      const bytes = Buffer.from(
        Array.from({ length: 2 * RESULT_CHUNK_BYTES + 3 }, (_, index) => index % 251),
      );
      const chunk = (place: number) =>
        bytes.subarray(place * RESULT_CHUNK_BYTES, (place + 1) * RESULT_CHUNK_BYTES);
      const append = (place: number, part = chunk(place)) =>
        given.store.appendResult(leaseOf(large), place, part);
      expect(await append(0, Buffer.from("replaced"))).toBe("done");
      expect(await Promise.all([append(0), append(1), append(2)])).toEqual(["done", "done", "done"]);
      expect(await given.store.appendResult(leaseOf(other), 0, Buffer.from("never acked"))).toBe("done");
      expect(await given.store.findResult(large)).toBeUndefined();
      const result = {
        body: new Uint8Array(),
        contentType: "image/png",
        storedBytes: bytes.length,
        status: 201,
      };
      await given.store.ack(leaseOf(large), result);
      await given.store.ack(leaseOf(other), { body: Buffer.from("small"), contentType: "text/plain" });
      await given.reopen();
      expect(await given.store.findResult(large)).toEqual({
        size: bytes.length,
        body: undefined,
        contentType: "image/png",
        status: 201,
        headers: undefined,
      });
      const read = async (callId: number, offset: number, length: number) =>
        Buffer.from((await given.store.readResult(callId, offset, length)) ?? []);
      for (const place of [0, 1, 2])
        expect((await read(large, place * RESULT_CHUNK_BYTES, bytes.length)).equals(chunk(place))).toBe(true);
      const across = RESULT_CHUNK_BYTES - 2;
      expect(await read(large, across, 10)).toEqual(bytes.subarray(across, RESULT_CHUNK_BYTES));
      expect(await read(other, 1, 3)).toEqual(Buffer.from("mal"));
      expect((await given.store.findCallDetails(large))?.resultBytes).toBe(bytes.length);
      expect(await given.store.resultBytes()).toBe(bytes.length + "small".length);
    });

    test("A result larger than a chunk is read in pieces, although one write stored it", async () => {
      const callId = await paidId(given.store, 1);
      const body = Buffer.alloc(RESULT_CHUNK_BYTES + 1, "x");
      await given.store.ack(await claimOne(given.store), { body, contentType: "text/plain" });
      expect(await given.store.findResult(callId)).toMatchObject({ size: body.length, body: undefined });
      expect(await given.store.readResult(callId, 0, body.length)).toHaveLength(RESULT_CHUNK_BYTES);
      expect(await given.store.readResult(callId, RESULT_CHUNK_BYTES, 10)).toHaveLength(1);
      expect(await given.store.readResult(callId + 1, 0, 1)).toBeUndefined();
    });

    test("An empty result is read as empty", async () => {
      const callId = await paidId(given.store, 1);
      await given.store.ack(await claimOne(given.store), {
        body: new Uint8Array(),
        contentType: "text/plain",
      });
      expect(await given.store.readResult(callId, 0, 10)).toHaveLength(0);
    });

    test("Each delivery has chunks of its own, and a lost lease adds none", async () => {
      const callId = await paidId(given.store, 1);
      const lost = await claimOne(given.store);
      await given.store.appendResult(lost, 0, Buffer.from("of the first"));
      given.now += LEASE_MS;
      expect(await given.store.appendResult(lost, 1, Buffer.from("late"))).toBe("lease_lost");
      const next = await claimOne(given.store);
      expect(await given.store.appendResult(lost, 1, Buffer.from("late"))).toBe("lease_lost");
      await given.store.appendResult(next, 0, Buffer.from("second"));
      await given.store.ack(next, { body: new Uint8Array(), contentType: "text/plain", storedBytes: 6 });
      expect(Buffer.from((await given.store.readResult(callId, 0, 6)) ?? []).toString()).toBe("second");
      expect(await given.store.appendResult(next, 1, Buffer.from("x"))).toBe("not_found");
    });

    test("Chunks that no ack names are forgotten, and chunks of results and running deliveries are kept", async () => {
      const [acked, running, again] = [
        await paidId(given.store, 1),
        await paidId(given.store, 2),
        await paidId(given.store, 3),
      ];
      const chunk = Buffer.from("chunk");
      const { calls } = await given.store.claim(claimRequest());
      for (const lease of calls)
        for (let place = 0; place < 20; place += 1) await given.store.appendResult(lease, place, chunk);
      const [first, , last] = calls;
      if (first === undefined || last === undefined) throw new Error("no JobCalls");
      await given.store.ack(first, { body: new Uint8Array(), contentType: "text/plain", storedBytes: 100 });
      await given.store.retry(last, { ...retryNow(), delayMs: 0 });
      const removed: number[] = [];
      for (let after: number | undefined = 0; after !== undefined; ) {
        const outcome: PruneOutcome = await given.store.prune({ kind: "chunks", ageMs: 0, after });
        removed.push(outcome.removed);
        after = outcome.next;
      }
      expect([first.callId, last.callId]).toEqual([acked, again]);
      expect(removed).toEqual([4, 4, 4, 4, 4]);
      expect(Buffer.from((await given.store.readResult(acked, 0, 5)) ?? []).toString()).toBe("chunk");
      const lease = calls.find(({ callId }) => callId === running);
      await given.store.ack(lease as Lease, {
        body: new Uint8Array(),
        contentType: "text/plain",
        storedBytes: 100,
      });
      expect(Buffer.from((await given.store.readResult(running, 0, 5)) ?? []).toString()).toBe("chunk");
      given.now += 2;
      while ((await given.store.prune({ kind: "results", ageMs: 1, after: 0 })).removed > 0);
      expect((await given.store.prune({ kind: "chunks", ageMs: 0, after: 0 })).removed).toBe(4);
    });

    test("The job of an unfinished JobCall is found", async () => {
      const [webhook, paid] = [await acceptId(given.store), await paidId(given.store, 1)];
      const jobs = await given.store.jobsOf([paid, 99, webhook]);
      expect(jobs).toMatchObject([{ origin: "x402" }, undefined, { origin: "webhook" }]);
      expect(jobs[0]).toMatchObject({ serviceId: paidCall().serviceId, jobId: paidCall().jobId });
      expect(await given.store.jobsOf([])).toEqual([]);
    });

    test("A status of 400 or above fails a call, which has its result and is not a dead letter", async () => {
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
      expect(await given.store.totals()).toMatchObject({ calls: { dead: 0 }, paidCalls: { done: 1 } });
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
