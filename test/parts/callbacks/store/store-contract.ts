import { describe, expect, test } from "vitest";
import type { PaymentIntent } from "../../../../src/core/payment.ts";
import { CALLBACK_EVENTS } from "../../../../src/parts/callbacks/store/events.ts";
import {
  CALLBACK_KEPT_MS,
  CALLBACK_TRIED_MS,
  CALLBACK_URL,
  type Callback,
  type CallbackLedger,
} from "../../../../src/parts/callbacks/store/ledger.ts";
import { CALLBACKS } from "../../../../src/parts/callbacks/store/module.ts";
import type { Given } from "../../../store/contract/given.ts";
import { acceptId, claimCalls, claimOne, paidCall, paymentIntent } from "../../../store/store-fixtures.ts";

export const OPERATOR = "https://ops.example/hook";
export const BUYER = "https://buyer.example:8443/a?b=c";
const RESULT = { body: Buffer.from("42"), contentType: "text/plain" };

export const dataOf = ({ data }: Callback) => JSON.parse(data) as Record<string, unknown>;

/** Steps that tests of callbacks take at a store. */
export function callbacksOf(given: Given) {
  const want = (events: readonly string[], url = OPERATOR) =>
    given.store.of(CALLBACKS).useCallbackEndpoints([{ url, events }]);

  async function begin(number: number, overrides: Partial<PaymentIntent> = {}) {
    const intent = paymentIntent(number, overrides);
    const begun = await given.store.beginPayment(intent, paidCall());
    if (begun.kind !== "begun") throw new Error(`expected begun, got ${begun.kind}`);
    return { callId: begun.callId, key: intent.key };
  }

  async function buy(number: number, overrides: Partial<PaymentIntent> = {}): Promise<number> {
    const { callId, key } = await begin(number, overrides);
    await given.store.settlePayment(key, JSON.stringify({ transaction: "0xab" }));
    return callId;
  }

  const all = async () => (await given.store.of(CALLBACKS).listCallbacks({ limit: 100 })).toReversed();
  const due = (page: Partial<Parameters<CallbackLedger["listDueCallbacks"]>[0]> = {}) =>
    given.store.of(CALLBACKS).listDueCallbacks({ hosts: 10, perHost: 10, after: "", ...page });

  /** Events of the operator, and those of buyers with a `*`, each with the status of its call. */
  async function told(): Promise<string[]> {
    return (await all()).map((callback) => {
      const { status } = dataOf(callback);
      return [callback.isBuyers ? "*" : "", callback.event, status === undefined ? "" : ` ${status}`].join(
        "",
      );
    });
  }

  return { want, begin, buy, all, due, told };
}

export function describeCallbacks(given: Given): void {
  const { want, begin, buy, all, due, told } = callbacksOf(given);

  describe("callbacks", () => {
    test("A paid call has a callback to the operator about its payment and to both about its end, in the writes that make them", async () => {
      await want(CALLBACK_EVENTS);
      const callId = await buy(1, { notes: { [CALLBACK_URL]: BUYER } });
      expect(await all()).toMatchObject([
        {
          event: "payment.settled",
          callId,
          at: given.now,
          url: OPERATOR,
          host: "ops.example",
          state: "pending",
        },
      ]);
      const [settled] = await all();
      expect(settled && dataOf(settled)).toEqual({
        call_id: callId,
        // 2^64 - 1, whose last digits JSON.parse cannot keep.
        service_id: 18446744073709552000,
        job_id: 7,
        network: paymentIntent(1).key.network,
        asset: paymentIntent(1).key.asset,
        symbol: "USDC",
        amount: "3264000",
        payer: paymentIntent(1).key.payer,
        transaction: "0xab",
      });
      expect(settled?.data).toContain("18446744073709551615");
      given.now += 5;
      await given.store.ack(await claimOne(given.store), RESULT);
      const finished = (await all()).filter(({ event }) => event === "call.finished");
      expect(finished).toMatchObject([
        { callId, at: given.now, url: OPERATOR, isBuyers: false, attempts: 0, dueAt: given.now },
        { callId, at: given.now, url: BUYER, isBuyers: true, host: "buyer.example:8443" },
      ]);
      for (const one of finished)
        expect(dataOf(one)).toMatchObject({
          call_id: callId,
          origin: "x402",
          job_id: 7,
          status: "succeeded",
        });
      expect(await given.store.totals()).toMatchObject({
        sums: { callbacks: { states: { pending: 3, sent: 0, dead: 0 }, oldestAt: given.now - 5 } },
      });
    });

    test("No callback is made without an endpoint and a buyer's URL", async () => {
      await buy(1);
      await acceptId(given.store);
      for (const call of await claimCalls(given.store)) await given.store.ack(call, RESULT);
      await buy(2);
      await given.store.fail(await claimOne(given.store), "no ink");
      expect(await all()).toEqual([]);
    });

    test("An endpoint gets only its events, and none once it is gone", async () => {
      await want(["dead_letter"]);
      await acceptId(given.store);
      await given.store.fail(await claimOne(given.store), "no ink");
      expect(await told()).toEqual(["dead_letter"]);
      const [letter] = await all();
      expect(letter && dataOf(letter)).toMatchObject({
        origin: "webhook",
        job_id: 30,
        attempts: 1,
        reason: "no ink",
      });
      await given.store.of(CALLBACKS).useCallbackEndpoints([]);
      await acceptId(given.store);
      await given.store.fail(await claimOne(given.store), "no ink");
      expect(await told()).toHaveLength(1);
    });

    test("Several endpoints each get the event, and acks in bulk leave none out", async () => {
      const urls = [OPERATOR, "https://other.example/"];
      await given.store
        .of(CALLBACKS)
        .useCallbackEndpoints(urls.map((url) => ({ url, events: ["call.finished"] })));
      const callIds = [];
      for (let n = 0; n < 6; n++) callIds.push(await acceptId(given.store));
      await Promise.all((await claimCalls(given.store)).map((call) => given.store.ack(call, RESULT)));
      const made = await all();
      for (const url of urls)
        expect(made.flatMap((one) => (one.url === url ? one.callId : [])).toSorted((a, b) => a - b)).toEqual(
          callIds,
        );
    });

    test("An endpoint that is removed and added again at once gets callbacks", async () => {
      await want(["dead_letter"]);
      await Promise.all([given.store.of(CALLBACKS).useCallbackEndpoints([]), want(["dead_letter"])]);
      await acceptId(given.store);
      await given.store.fail(await claimOne(given.store), "no ink");
      expect(await told()).toHaveLength(1);
    });

    test("A call that failed with an HTTP status has one callback about its end with that status, however it is paid", async () => {
      await want(["call.finished", "dead_letter"]);
      await buy(1, { notes: { [CALLBACK_URL]: BUYER } });
      await begin(2, { charge: "used" });
      const [prepaid, deferred] = await claimCalls(given.store);
      if (prepaid === undefined || deferred === undefined) throw new Error("no JobCalls");
      await given.store.ack(prepaid, { ...RESULT, status: 404 });
      await given.store.ack(deferred, { ...RESULT, status: 500 });
      expect(await told()).toEqual(["call.finished failed", "*call.finished failed", "call.finished failed"]);
      expect((await all()).map((callback) => dataOf(callback).http_status)).toEqual([404, 404, 500]);
    });

    test("A dead letter that is retried has a callback about each of its ends", async () => {
      await want(["call.finished"]);
      const callId = await buy(1);
      for (const _ of [1, 2]) {
        await given.store.fail(await claimOne(given.store), "no ink");
        given.now += 1;
        await given.store.retryDeadLetter(callId);
      }
      await given.store.ack(await claimOne(given.store), RESULT);
      expect(await told()).toEqual([
        ...["call.finished failed", "call.finished failed"],
        "call.finished succeeded",
      ]);
    });

    test("A payment that cannot be decided has a callback, and so has its end", async () => {
      await want(["payment.unresolved", "payment.settled"]);
      const { key } = await begin(1);
      await given.store.leavePaymentUnresolved(key, "the chain is silent");
      expect(await told()).toEqual(["payment.unresolved"]);
      expect(dataOf((await all())[0] as Callback)).toMatchObject({ reason: "the chain is silent" });
      await given.store.closePayment(key, { as: "paid", by: "ada", note: "seen" });
      expect(await told()).toEqual(["payment.unresolved", "payment.settled"]);
    });

    test("A call that is charged after it ran ends once its charge is certain", async () => {
      await want(["call.finished"]);
      const deferred = (number: number) =>
        begin(number, { charge: "used", amount: "1000", notes: { [CALLBACK_URL]: BUYER } });
      const both = (status: string) => [`*call.finished ${status}`, `call.finished ${status}`];
      const last = async () => (await told()).slice(-2).toSorted();

      const settled = await deferred(1);
      await given.store.ack(await claimOne(given.store), RESULT, { units: "5" });
      expect(await told()).toEqual([]);
      await given.store.settlePayment(settled.key, "{}");
      expect(await last()).toEqual(both("succeeded"));

      await deferred(2);
      await given.store.ack(await claimOne(given.store), RESULT, { units: "0" });
      expect(await told()).toHaveLength(4);
      expect(await last()).toEqual(both("succeeded"));

      const failed = await deferred(3);
      await given.store.ack(await claimOne(given.store), RESULT);
      await given.store.failPayment(failed.key, "{}", "not paid");
      expect(await told()).toHaveLength(6);
      expect(await last()).toEqual(both("failed"));

      await deferred(4);
      await given.store.fail(await claimOne(given.store), "no ink");
      expect(await told()).toHaveLength(8);
      expect(await last()).toEqual(both("failed"));

      // The authorization ends while the job runs: it is charged before it has finished.
      const early = await begin(5, {
        charge: "used",
        amount: "1000",
        minCharge: "7",
        notes: { [CALLBACK_URL]: BUYER },
      });
      const lease = await claimOne(given.store);
      await given.store.endAuthorization(early.callId);
      await given.store.settlePayment(early.key, "{}");
      expect(await told()).toHaveLength(8);
      await given.store.ack(lease, RESULT);
      expect(await told()).toHaveLength(10);
      expect(await last()).toEqual(both("succeeded"));
    });

    test("Callbacks that are due come by host and time, and a host with many does not hide the others", async () => {
      await want(["call.finished"]);
      for (const number of [1, 2, 3])
        await buy(number, number === 2 ? { notes: { [CALLBACK_URL]: BUYER } } : {});
      for (const call of await claimCalls(given.store)) {
        await given.store.ack(call, RESULT);
        given.now += 1;
      }
      const hosts = async (page: Parameters<typeof due>[0]) => (await due(page)).map(({ host }) => host);
      const [buyers, ops] = ["buyer.example:8443", "ops.example"];
      expect(await hosts({})).toEqual([buyers, ops, ops, ops]);
      expect(await hosts({ perHost: 2 })).toEqual([buyers, ops, ops]);
      expect(await hosts({ hosts: 1 })).toEqual([buyers]);
      expect(await hosts({ after: buyers })).toEqual([ops, ops, ops]);
      expect(await hosts({ after: ops })).toEqual([]);
      const [first, second] = await due({ after: buyers });
      expect((first?.callId ?? 0) < (second?.callId ?? 0)).toBe(true);
      const delayed = { kind: "later", delayMs: 1_000, reason: "HTTP 503" } as const;
      expect(await given.store.of(CALLBACKS).endCallback(first?.id ?? 0, 0, delayed)).toMatchObject({
        state: "pending",
        attempts: 1,
      });
      // Another process, which did not know of that attempt, records its own too late.
      expect(await given.store.of(CALLBACKS).endCallback(first?.id ?? 0, 0, delayed)).toBeUndefined();
      expect(await hosts({ after: buyers })).toEqual([ops, ops]);
      given.now += 1_000;
      expect((await due()).at(-1)).toMatchObject({ id: first?.id, attempts: 1, reason: "HTTP 503" });
    });

    test("An attempt is recorded once, and nothing follows the end", async () => {
      const callback = await failOne();
      const sent = await given.store.of(CALLBACKS).endCallback(callback.id, 0, { kind: "sent" });
      expect(sent).toMatchObject({ state: "sent", attempts: 1, endedAt: given.now });
      expect(await given.store.of(CALLBACKS).endCallback(callback.id, 0, { kind: "sent" })).toBeUndefined();
      expect(
        await given.store.of(CALLBACKS).endCallback(callback.id, 1, { kind: "dead", reason: "gone" }),
      ).toBeUndefined();
      expect(await given.store.of(CALLBACKS).endCallback(999, 0, { kind: "sent" })).toBeUndefined();
      expect(await due()).toEqual([]);
      expect(await given.store.of(CALLBACKS).retryCallback(callback.id)).toMatchObject({
        retried: false,
        callback: { state: "sent" },
      });
      expect(await given.store.totals()).toMatchObject({
        sums: { callbacks: { states: { pending: 0, sent: 1, dead: 0 } } },
      });
    });

    test("A callback is given up after three days, and the operator can try it again", async () => {
      const { id } = await failOne();
      const later = { kind: "later", delayMs: 60_000, reason: "refused\0" } as const;
      given.now += CALLBACK_TRIED_MS - 60_000;
      expect(await given.store.of(CALLBACKS).endCallback(id, 0, later)).toMatchObject({ state: "pending" });
      given.now += 1;
      expect(await given.store.of(CALLBACKS).endCallback(id, 1, later)).toMatchObject({
        state: "dead",
        endedAt: given.now,
      });
      expect(await given.store.of(CALLBACKS).listCallbacks({ state: "dead", limit: 9 })).toMatchObject([
        { id, attempts: 2 },
      ]);
      expect(await given.store.of(CALLBACKS).retryCallback(id)).toMatchObject({
        retried: true,
        callback: { state: "pending" },
      });
      expect(await due()).toMatchObject([{ id, dueAt: given.now, attempts: 2 }]);
      expect(await given.store.of(CALLBACKS).endCallback(id, 2, later)).toMatchObject({ state: "pending" });
      expect(
        await given.store.of(CALLBACKS).endCallback(id, 3, { kind: "dead", reason: "HTTP 410" }),
      ).toMatchObject({
        state: "dead",
        reason: "HTTP 410",
      });
      expect(await given.store.of(CALLBACKS).retryCallback(999)).toBeUndefined();
    });

    test("Ended callbacks are forgotten after a week, and pending ones stay", async () => {
      const ended = await failOne();
      const pending = await failOne();
      await given.store.of(CALLBACKS).endCallback(ended.id, 0, { kind: "sent" });
      given.now += CALLBACK_KEPT_MS;
      const last = await failOne();
      await given.store.of(CALLBACKS).endCallback(last.id, 0, { kind: "dead", reason: "HTTP 410" });
      expect((await all()).map(({ id }) => id)).toEqual([pending.id, last.id]);
    });

    test("The operator's list has pages, states and calls, and survives a restart", async () => {
      const made = [await failOne(), await failOne(), await failOne()].toReversed();
      await given.reopen();
      const ids = async (filter: Parameters<CallbackLedger["listCallbacks"]>[0]) =>
        (await given.store.of(CALLBACKS).listCallbacks(filter)).map(({ id }) => id);
      expect(await ids({ limit: 2 })).toEqual(made.slice(0, 2).map(({ id }) => id));
      expect(await ids({ limit: 2, before: made[1]?.id })).toEqual([made[2]?.id]);
      expect(await ids({ limit: 9, callId: made[1]?.callId })).toEqual([made[1]?.id]);
      expect(await ids({ limit: 9, callId: made[1]?.callId, state: "dead" })).toEqual([]);
      const lost = made[2]?.callId ?? 0;
      await given.store.of(CALLBACKS).endCallback(made[2]?.id ?? 0, 0, { kind: "dead", reason: "HTTP 410" });
      await given.store.retryDeadLetter(lost);
      await given.store.fail(await claimOne(given.store), "no ink");
      expect(await ids({ limit: 1, callId: lost, state: "dead" })).toEqual([made[2]?.id]);
      expect(await ids({ limit: 9, state: "sent" })).toEqual([]);
    });
  });

  /** Makes a dead letter. @returns its callback */
  async function failOne(): Promise<Callback> {
    await want(["dead_letter"]);
    await acceptId(given.store);
    await given.store.fail(await claimOne(given.store), "no ink");
    const [made] = await given.store.of(CALLBACKS).listCallbacks({ limit: 1 });
    if (made === undefined) throw new Error("expected a callback");
    return made;
  }
}
